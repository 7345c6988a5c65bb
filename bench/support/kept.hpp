// bench/support/kept.hpp - one case at a time, made once though a benchmark is called many times.
//
// The framework calls a benchmark again and again while it looks for an iteration count. Cases are
// large, so only the newest is kept; list the arguments that make a new one slowest.
//
// Depends on  nothing
#pragma once

#include <optional>
#include <utility>

namespace decant::bench {

// make(), or what it gave last time if that was for an equal key. Each `make` has its own slot.
template <class Key, class Make>
auto& kept(const Key& key, Make&& make) {
  static std::optional<std::pair<Key, decltype(make())>> slot;
  if (!slot || slot->first != key) {
    slot.reset();  // before the next one takes its memory
    slot.emplace(key, make());
  }
  return slot->second;
}

}  // namespace decant::bench
