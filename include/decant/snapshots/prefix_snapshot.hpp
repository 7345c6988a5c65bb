// decant/snapshots/prefix_snapshot.hpp - a prefix cache in a file, and back in a prefix tree.
//
// The cached pages of a tree, one after another, are saved as one sequence would be
// (snapshots/snapshot.hpp); beside them stand which page follows which, and their cache namespaces.
// A tree with pages of another size can restore them as well.
//
//   pages.parents     I64 [pages], the page before it or -1; parents come before their children,
//                     otherwise the most recently used pages come first
//   pages.spaces      U64 [pages, 3], model, adapter and tenant
//   pages.priorities  I32 [pages]
//
// Tested by   tests/snapshots/prefix_snapshot_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/snapshots/detail/snapshot_format.hpp>
#include <decant/snapshots/snapshot.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::snapshots {

namespace detail {

inline constexpr std::string_view kPrefixes = "decant tree of prefixes";

}  // namespace detail

// Writes the cached pages of a tree to a file, which replaces the old one when it is complete.
// `model` names the model that computed them.
//
// Errors   as save_snapshot()
// Cost     as save_snapshot(), of all pages
template <codec::Codec K, codec::Codec V, class Hash>
void save_prefixes(const std::filesystem::path& path, const kv::PrefixTree<K, V, Hash>& tree,
                   std::string_view model) {
  expects(!files::find_invalid_utf8(model),
          "snapshots::save_prefixes: the name of the model is not UTF-8");
  std::vector<kv::PageId> pages;
  std::vector<Token> tokens;
  std::vector<std::int64_t> parents;
  std::vector<std::uint64_t> spaces;
  std::vector<std::int32_t> priorities;
  for (const auto& entry : tree.entries()) {
    pages.push_back(entry.page);
    tokens.insert(tokens.end(), entry.tokens.begin(), entry.tokens.end());
    parents.push_back(entry.parent);
    spaces.insert(spaces.end(), {entry.space.model, entry.space.adapter, entry.space.tenant});
    priorities.push_back(entry.priority);
  }
  const kv::Paged<K, V> all(tree.pool(), pages, std::ssize(tokens));
  const detail::StoreShape shape = detail::shape_of(all);
  std::vector<files::SealedWriter::Entry> entries = detail::entries_of(shape);
  const Index count = std::ssize(pages);
  entries.push_back({"pages.parents", "I64", {count}});
  entries.push_back({"pages.spaces", "U64", {count, 3}});
  entries.push_back({"pages.priorities", "I32", {count}});
  files::SealedWriter writer(path, detail::metadata_of(shape, detail::kPrefixes, model), entries);
  writer.write(std::as_bytes(std::span(tokens)));
  detail::write_rows(writer, all);
  writer.write(std::as_bytes(std::span(parents)));
  writer.write(std::as_bytes(std::span(spaces)));
  writer.write(std::as_bytes(std::span(priorities)));
  writer.commit();
}

// A snapshot of a tree that was opened and verified. Move-only.
//
// Errors   FormatError naming the file, and what is wrong in it
// Cost     opening reads the file once
// Threads  const access may overlap
class PrefixSnapshot {
 public:
  static PrefixSnapshot open(const std::filesystem::path& path);
  static PrefixSnapshot parse(std::span<const std::byte> bytes, std::string name);

  Index pages() const noexcept { return std::ssize(parents_); }
  // Their keys and values, one page after another.
  const Snapshot& rows() const noexcept { return rows_; }

  // Adds the saved pages to a tree, which may hold some already.
  //
  // Errors   std::invalid_argument naming what differs: the model, the shape, the formats;
  //          CacheFull if the pool has too few free pages; nothing changed then. std::bad_alloc:
  //          the tree then has some of the pages. Pages beyond the tree's limit are dropped again,
  //          the least recently used first
  // Cost     every cell that is not in the tree is read and written once
  template <codec::Codec K, codec::Codec V, class Hash>
  void restore(kv::PrefixTree<K, V, Hash>& tree, std::string_view model) const {
    const std::vector<Index> ends = ends_of_branches();
    check_tree(tree, model, std::ssize(ends));
    for (Index end : ends) add_branch(tree, end);
  }

 private:
  explicit PrefixSnapshot(Snapshot rows);

  Index page_tokens() const noexcept {
    return pages() == 0 ? 0 : std::ssize(rows_.tokens()) / pages();
  }

  // Pages that no other page follows, those used least recently first.
  std::vector<Index> ends_of_branches() const;

  template <class Tree>
  void check_tree(const Tree& tree, std::string_view model, Index branches) const {
    const auto& pool = tree.pool();
    detail::StoreShape shape = detail::shape_of(tree.share({}, {}));
    shape.capacity = std::ssize(rows_.tokens());  // of one store; the pages are counted below
    rows_.check_store(shape, model, std::ssize(rows_.tokens()));
    const bool alike = page_tokens() == pool.page_tokens();  // else branches begin and end within
    const Index needed =
        alike ? pages() : ceil_div(std::ssize(rows_.tokens()), pool.page_tokens()) + 2 * branches;
    expects<CacheFull>(needed <= pool.free_pages(), rows_.file_.name(), ": ", pages(),
                       " pages may take ", needed, " of the pool's, ", pool.free_pages(),
                       " are free");
  }

  // The prompt that ends with a page: what the tree has of it already, and the rest from the file.
  template <codec::Codec K, codec::Codec V, class Hash>
  void add_branch(kv::PrefixTree<K, V, Hash>& tree, Index last) const {
    std::vector<Index> branch;
    for (Index page = last; page >= 0; page = parents_[static_cast<std::size_t>(page)]) {
      branch.insert(branch.begin(), page);
    }
    std::vector<Token> tokens;
    for (Index page : branch) {
      const auto part = rows_.tokens().subspan(static_cast<std::size_t>(page * page_tokens()),
                                               static_cast<std::size_t>(page_tokens()));
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
    const auto& space = spaces_[static_cast<std::size_t>(last)];
    kv::Paged<K, V> store = tree.share(space, tokens);
    while (store.end() < std::ssize(tokens)) {
      const Index page = branch[static_cast<std::size_t>(store.end() / page_tokens())];
      const Index within = store.end() % page_tokens();
      rows_.append(store, {page * page_tokens() + within, (page + 1) * page_tokens()});
    }
    insert_pages(tree, space, tokens, store, branch);
  }

  // Page by page, each with the priority of the last one of the file that it holds.
  template <codec::Codec K, codec::Codec V, class Hash>
  void insert_pages(kv::PrefixTree<K, V, Hash>& tree, const kv::CacheNamespace& space,
                    std::span<const Token> tokens, const kv::Paged<K, V>& store,
                    std::span<const Index> branch) const {
    const Index size = tree.pool().page_tokens();
    for (Index page = 1; page * size <= std::ssize(tokens); ++page) {
      const auto last = static_cast<std::size_t>((page * size - 1) / page_tokens());
      const kv::Paged<K, V> part(tree.pool(), store.pages().first(static_cast<std::size_t>(page)),
                                 page * size);
      tree.insert(space, tokens.first(static_cast<std::size_t>(page * size)), part,
                  priorities_[static_cast<std::size_t>(branch[last])]);
    }
  }

  Snapshot rows_;
  std::vector<std::int64_t> parents_;
  std::vector<kv::CacheNamespace> spaces_;
  std::vector<std::int32_t> priorities_;
};

}  // namespace decant::inline DECANT_ABI::snapshots

#ifndef DECANT_COMPILED_IO
#include <decant/snapshots/detail/prefix_snapshot.hpp>
#endif
