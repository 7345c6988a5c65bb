// decant/kv/prefix_tree.hpp - the prefix cache: a prompt that begins like an earlier one reuses its
// keys and values.
//
// A node is one full page of tokens behind those of its parent. Children are found by a hash, but
// tokens decide: whatever the hash, a prompt never gets another prompt's keys and values. Unused
// pages are evicted, those used least recently first, from the ends of branches.
//
//   tokens of prompts = tokens reused + tokens computed, always
//
// Source      Zheng et al. 2023, "SGLang" (RadixAttention), arXiv:2312.07104
// Tested by   tests/kv/prefix_tree_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::kv {

// Borrows its pool, which must outlive it; sequences may outlive the tree. A living sequence
// pins its pages. Neither copied nor moved.
//
// Units    max_pages: how many pages are cached at most, used by sequences or not
// Errors   std::invalid_argument, std::bad_alloc; the tree is then valid and has lost no page
// Cost     match and insert O(tokens) on average; an evicted page O(log nodes), and O(1) for each
//          end of a branch that is in use, or O(pages of the branch) if no other is left
// Threads  as its pool
template <codec::Codec K, codec::Codec V = K, class Hash = TokenHash>
class PrefixTree {
 public:
  explicit PrefixTree(PagePool<K, V>& pool, Index max_pages = std::numeric_limits<Index>::max(),
                      Hash hash = {})
      : pool_(&pool), max_pages_(max_pages), hash_(std::move(hash)) {
    expects(max_pages >= 0, "kv::PrefixTree: at most ", max_pages, " pages");
  }
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  ~PrefixTree() {
    for (const auto& [hash, node] : nodes_) pool_->drop(node.page);
  }

  // A sequence of the cached prefix of `prompt`: at most all but its last token, whose logits are
  // needed. Its pages count as used now. If it ends within a page, its first new row takes a free
  // page, for a copy.
  Paged<K, V> match(const CacheNamespace& space, std::span<const Token> prompt) {
    Paged<K, V> store = find(space, prompt);
    count(std::ssize(prompt), store.end());
    return store;
  }

  // match() in two parts, for callers that may not use the result: find() returns the sequence,
  // count() counts a prompt of which `reused` tokens were reused.
  void count(Index prompt, Index reused) noexcept {
    statistics_.prompts += 1;
    statistics_.hits += reused > 0;
    statistics_.reused_tokens += reused;
    statistics_.computed_tokens += prompt - reused;
  }
  [[nodiscard]] Paged<K, V> find(const CacheNamespace& space, std::span<const Token> prompt) {
    expects(!prompt.empty(), "kv::PrefixTree: the prompt is empty");
    std::vector<PageId> pages;
    clock_ += 1;
    walk(nodes_, space, prompt, [&](Node& node) {
      pages.push_back(node.page);
      touch(node);
    });
    const Index page = pool_->page_tokens();
    const Index reused = std::min(std::ssize(pages) * page, std::ssize(prompt) - 1);
    pages.resize(static_cast<std::size_t>(ceil_div(reused, page)));
    return Paged<K, V>(*pool_, pages, reused);
  }

  // How many tokens of `prompt` match() would reuse.
  Index matched(const CacheNamespace& space, std::span<const Token> prompt) const {
    Index pages = 0;
    walk(nodes_, space, prompt, [&](const Node&) { pages += 1; });
    return std::max<Index>(0, std::min(pages * pool_->page_tokens(), std::ssize(prompt) - 1));
  }

  // A sequence of the cached full pages of `tokens`. It does not count in the statistics.
  //
  // Errors   std::bad_alloc
  Paged<K, V> share(const CacheNamespace& space, std::span<const Token> tokens) const {
    std::vector<PageId> pages;
    walk(nodes_, space, tokens, [&](const Node& node) { pages.push_back(node.page); });
    return Paged<K, V>(*pool_, pages, std::ssize(pages) * pool_->page_tokens());
  }

  // Caches the full pages of `store`, which holds the keys and values of `tokens`. Pages that are
  // cached already stay. If the tree is full, unused pages of no higher priority are evicted, the
  // lowest and least recently used first; if there are none, only the first pages are cached.
  //
  // Errors   std::invalid_argument when the store holds another number of tokens, or is another
  //          pool's
  void insert(const CacheNamespace& space, std::span<const Token> tokens, const Paged<K, V>& store,
              int priority = 0) {
    expects(&store.pool() == pool_, "kv::PrefixTree::insert: a sequence of another pool");
    expects(std::ssize(tokens) == store.end(), "kv::PrefixTree::insert: ", tokens.size(),
            " tokens, the store holds ", store.end());
    const Index page = pool_->page_tokens();
    clock_ += 1;
    Node* parent = walk(nodes_, space, tokens, [&](Node& node) { touch(node); });
    for (Index at = depth(parent); at < std::ssize(tokens) / page; ++at) {
      parent = &add(space, parent, part(tokens, at), store.pages()[static_cast<std::size_t>(at)],
                    priority);
      if (std::ssize(nodes_) > max_pages_ && !evict_one(parent, priority)) return remove(*parent);
    }
  }

  // Evicts unused pages until `count` are free in the pool, or none if that is impossible; returns
  // whether they are free.
  bool make_room(Index count) {
    if (count > pool_->total_pages() - pool_->used_pages()) return false;
    while (pool_->free_pages() < count) {
      if (!evict_one(nullptr, std::numeric_limits<int>::max()) && !uncover_one()) return false;
    }
    return true;
  }

  // One cached page: its namespace, the page before it, and its tokens.
  struct Entry {
    CacheNamespace space;
    Index parent = -1;  // in the list, before this one; none for the first page of a prompt
    std::span<const Token> tokens;
    PageId page = 0;
    int priority = 0;
  };
  // All of them, those used last first; so a page comes before those behind it.
  //
  // Errors   std::bad_alloc
  std::vector<Entry> entries() const {
    std::vector<const Node*> order;
    for (const auto& [hash, node] : nodes_) order.push_back(&node);
    std::ranges::sort(order, [](const Node* a, const Node* b) {
      return std::tie(b->used, a->depth, a->page) < std::tie(a->used, b->depth, b->page);
    });
    std::unordered_map<const Node*, Index> places;
    std::vector<Entry> list;
    for (const Node* node : order) {
      const Index parent = node->parent == nullptr ? -1 : places.at(node->parent);
      places.emplace(node, std::ssize(list));
      list.push_back({node->space, parent, node->tokens, node->page, node->priority});
    }
    return list;
  }

  PagePool<K, V>& pool() const noexcept { return *pool_; }
  Index pages() const noexcept { return std::ssize(nodes_); }
  Index bytes() const noexcept { return pages() * pool_->page_bytes(); }
  const PrefixStatistics& statistics() const noexcept { return statistics_; }

 private:
  struct Node {
    CacheNamespace space;
    Node* parent = nullptr;
    std::vector<Token> tokens;
    PageId page = 0;
    Index depth = 0;  // pages up to and with this one
    std::uint64_t hash = 0;
    int priority = 0;
    std::uint64_t used = 0;  // when, by clock_
    Index children = 0;
  };
  // Nodes without children, in the order of eviction.
  struct Order {
    bool operator()(const Node* a, const Node* b) const noexcept {
      return std::tie(a->priority, a->used, a->hash, a->page) <
             std::tie(b->priority, b->used, b->hash, b->page);
    }
  };

  std::span<const Token> part(std::span<const Token> tokens, Index page) const {
    const auto size = static_cast<std::size_t>(pool_->page_tokens());
    return tokens.subspan(static_cast<std::size_t>(page) * size, size);
  }
  static Index depth(const Node* node) noexcept { return node == nullptr ? 0 : node->depth; }

  std::uint64_t hash_of(const CacheNamespace& space, const Node* parent,
                        std::span<const Token> tokens) const {
    if (parent != nullptr) return hash_(parent->hash, tokens);
    return hash_(space.model + 3 * space.adapter + 5 * space.tenant, tokens);
  }

  // visit(node) for each cached page of `tokens`, from the first on; returns the last of them.
  template <class Nodes, class F>
  auto walk(Nodes& nodes, const CacheNamespace& space, std::span<const Token> tokens,
            F&& visit) const {
    decltype(&nodes.begin()->second) node = nullptr;
    for (Index at = 0; at < std::ssize(tokens) / pool_->page_tokens(); ++at) {
      const auto page = part(tokens, at);
      auto [next, last] = nodes.equal_range(hash_of(space, node, page));
      next = std::find_if(next, last, [&](const auto& entry) {
        const Node& other = entry.second;
        return other.parent == node && other.space == space &&
               std::ranges::equal(other.tokens, page);
      });
      if (next == last) break;
      node = &next->second;
      visit(*node);
    }
    return node;
  }

  void touch(Node& node) {
    if (node.children > 0) {
      node.used = clock_;
      return;
    }
    auto leaf = leaves_.extract(&node);
    node.used = clock_;
    leaves_.insert(std::move(leaf));
  }

  Node& add(const CacheNamespace& space, Node* parent, std::span<const Token> tokens, PageId page,
            int priority) {
    const std::uint64_t hash = hash_of(space, parent, tokens);
    const auto at = nodes_.emplace(hash, Node{.space = space,
                                              .parent = parent,
                                              .tokens = {tokens.begin(), tokens.end()},
                                              .page = page,
                                              .depth = depth(parent) + 1,
                                              .hash = hash,
                                              .priority = priority,
                                              .used = clock_});
    try {
      leaves_.insert(&at->second);
    } catch (...) {
      nodes_.erase(at);
      throw;
    }
    pool_->cache(page);
    if (parent != nullptr && parent->children++ == 0) leaves_.erase(parent);
    return at->second;
  }

  // Evicts the first leaf of a priority up to `highest` that no sequence uses, but not `spared`.
  bool evict_one(const Node* spared, int highest) {
    for (Node* leaf : leaves_) {
      if (leaf->priority > highest) break;
      if (leaf == spared || pool_->used(leaf->page)) continue;
      remove(*leaf);
      statistics_.evicted_pages += 1;
      return true;
    }
    return false;
  }

  // Removes a leaf that is in use and has unused ancestors; its page stays with its sequences.
  bool uncover_one() noexcept {
    for (Node* leaf : leaves_) {
      const Node* at = leaf;
      while (at != nullptr && pool_->used(at->page)) at = at->parent;
      if (at == nullptr) continue;
      remove(*leaf);
      statistics_.evicted_pages += 1;
      return true;
    }
    return false;
  }

  // If the parent becomes a leaf, it takes the memory of the removed one among the leaves.
  void remove(Node& leaf) noexcept {
    Node* parent = leaf.parent;
    auto place = leaves_.extract(&leaf);
    pool_->drop(leaf.page);
    const auto [first, last] = nodes_.equal_range(leaf.hash);
    nodes_.erase(
        std::find_if(first, last, [&](const auto& entry) { return &entry.second == &leaf; }));
    if (parent == nullptr || --parent->children > 0) return;
    place.value() = parent;
    leaves_.insert(std::move(place));
  }

  PagePool<K, V>* pool_;
  Index max_pages_;
  Hash hash_;
  std::uint64_t clock_ = 0;
  std::unordered_multimap<std::uint64_t, Node> nodes_;  // by hash; nodes do not move
  std::set<Node*, Order> leaves_;
  PrefixStatistics statistics_;
};

}  // namespace decant::inline DECANT_ABI::kv
