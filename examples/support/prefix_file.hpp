// examples/support/prefix_file.hpp - keys and values saved to a file and loaded again.
//
// Tested by   tests/examples/agreements.cmake, tests/examples/refusals.cmake
#pragma once

#include <decant/core/types.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/decoder.hpp>
#include <decant/snapshots/fingerprint.hpp>
#include <decant/snapshots/snapshot.hpp>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <span>
#include <string>

namespace examples {

// Fills an empty store with what the file has of the prompt, except its last token, whose logits
// are needed.
template <decant::kv::Store S>
void load_prefix(const std::string& path, const decant::model::Decoder& decoder,
                 std::span<const decant::Token> prompt, S& store) {
  const decant::snapshots::Snapshot snapshot = decant::snapshots::Snapshot::open(path);
  const auto differs = std::ranges::mismatch(snapshot.tokens(), prompt.first(prompt.size() - 1));
  const decant::Position common = differs.in1 - snapshot.tokens().begin();
  if (common < snapshot.fewest(store)) {
    std::cerr << "note: " << path << " holds too few tokens of what it shares with the prompt\n";
    return;
  }
  snapshot.restore(store, decant::snapshots::fingerprint(decoder), common);
}

template <decant::kv::Store S>
void save_prefix(const std::string& path, const decant::model::Decoder& decoder,
                 std::span<const decant::Token> tokens, const S& store) {
  decant::snapshots::save_snapshot(path, store, tokens.first(static_cast<std::size_t>(store.end())),
                                   decant::snapshots::fingerprint(decoder));
}

}  // namespace examples
