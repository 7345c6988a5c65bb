// tests/fuzz/snapshot_target.hpp - one saved sequence or tree of unknown worth, read and restored.
#pragma once

#include <decant/codec/scaled.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/snapshots/prefix_snapshot.hpp>
#include <decant/snapshots/snapshot.hpp>

#include <xxhash.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <span>
#include <stdexcept>
#include <vector>

namespace decant::fuzz {

// The last eight bytes made the checksum of those before them: what is mutated would not be looked
// at otherwise.
inline std::vector<std::byte> sealed(std::span<const std::byte> bytes) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  if (copy.size() < 8) return copy;
  const std::size_t size = copy.size() - 8;
  const XXH64_hash_t hash = XXH3_64bits(copy.data(), size);
  std::memcpy(copy.data() + size, &hash, sizeof hash);
  return copy;
}

// f(pool) with a pool of the file's shape and formats, where it is small.
template <class F>
void with_pool(const kv::Geometry& geometry, codec::Type keys, codec::Type values, Index tokens,
               F&& f) {
  const std::vector<Index> extents = {geometry.layers, geometry.heads, geometry.key_dim,
                                      geometry.value_dim, tokens + 1};
  double elements = 1;
  for (Index extent : extents) elements *= static_cast<double>(extent);
  if (elements > 1e5) return;
  codec::visit_cache(keys, [&]<class K>(K) {
    if (values == K::kType) {  // all mixes of formats would take a compiler long
      kv::PagePool<K> pool(geometry, tokens / 16 + 40, 16);
      f(pool);
    }
  });
}

// Whether `bytes` are a saved sequence or tree, but for their checksum. Anything but a file or a
// FormatError is a fault of the reader, and so is a store that does not hold the file's tokens
// then.
inline bool accepts_snapshot(std::span<const std::byte> bytes) {
  const std::vector<std::byte> file = sealed(bytes);
  bool accepted = false;
  try {
    const snapshots::Snapshot snapshot = snapshots::Snapshot::parse(file, "fuzz");
    const Index tokens = std::ssize(snapshot.tokens());
    with_pool(snapshot.geometry(), snapshot.keys(), snapshot.values(), tokens,
              [&]<class K>(kv::PagePool<K>& pool) {
                kv::Paged<K> store(pool);
                try {
                  snapshot.restore(store, snapshot.model());
                  if (store.end() != tokens) std::terminate();
                } catch (const std::invalid_argument&) {  // it begins too late
                  if (store.end() != 0) std::terminate();
                }
              });
    accepted = true;
  } catch (const FormatError&) {
  }
  try {
    const snapshots::PrefixSnapshot prefixes = snapshots::PrefixSnapshot::parse(file, "fuzz");
    const snapshots::Snapshot& rows = prefixes.rows();
    with_pool(rows.geometry(), rows.keys(), rows.values(), std::ssize(rows.tokens()),
              [&]<class K>(kv::PagePool<K>& pool) {
                kv::PrefixTree<K> tree(pool);
                try {
                  prefixes.restore(tree, rows.model());
                } catch (const CacheFull&) {
                }
                if (pool.used_pages() != 0 || pool.cached_pages() != tree.pages()) std::terminate();
              });
    accepted = true;
  } catch (const FormatError&) {
  } catch (const std::invalid_argument&) {
  }
  return accepted;
}

}  // namespace decant::fuzz
