// decant/model/store_check.hpp - whether a store holds all tokens that a model's layers see.
//
// Tested by   tests/law/stores_test.cpp, tests/decoding/generate_limits_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/config.hpp>

#include <string_view>

namespace decant::inline DECANT_ABI::model {

// Refuses a store of another shape, and one that drops tokens which a layer still sees; the
// sentence begins with `who`.
//
// Errors   std::invalid_argument
template <kv::Store S>
void check(const Config& config, const S& store, std::string_view who) {
  expects(store.geometry() == config.geometry(), who, ": a store of another geometry");
  for (Index layer = 0; layer < config.layers; ++layer) {
    const Index held = store.window(layer);
    const Position window = config.window(layer);
    expects(held == 0 || (window > 0 && window <= held), who, ": a store that holds a window of ",
            held, " tokens, for layer ", layer, ", which looks back ",
            window == 0 ? "to the first" : "further");
    expects(held == 0 || store.sink_tokens() >= config.sink_tokens, who,
            ": a store that holds the first ", store.sink_tokens(),
            " tokens, for a model that sees ", config.sink_tokens);
  }
}

}  // namespace decant::inline DECANT_ABI::model
