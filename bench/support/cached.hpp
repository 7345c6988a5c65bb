// bench/support/cached.hpp - a benchmark's case, made once though the benchmark is called many
// times.
//
// The framework calls a benchmark again and again while it looks for an iteration count. Cases are
// large, so only the newest is cached; list the arguments that make a new one slowest.
#pragma once

#include <optional>
#include <utility>

namespace decant::bench {

// make(), or its last result if that was for an equal key. Each `make` has a slot of its own.
template <class Key, class Make>
auto& cached(const Key& key, Make&& make) {
  static std::optional<std::pair<Key, decltype(make())>> slot;
  if (!slot || slot->first != key) {
    slot.reset();  // before the next one takes its memory
    slot.emplace(key, make());
  }
  return slot->second;
}

}  // namespace decant::bench
