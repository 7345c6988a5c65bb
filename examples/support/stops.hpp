// examples/support/stops.hpp - stop strings as users give them.
//
// Tested by   tests/examples/agreements.cmake
#pragma once

#include <decant/decoding/stop.hpp>
#include <decant/text/tokenizer.hpp>

#include <optional>
#include <string>
#include <vector>

namespace examples {

// Special tokens have no text, so a stop string that spells one is a stop token.
inline void stop_at_special_tokens(decant::decoding::StopOptions& stop,
                                   const decant::text::Tokenizer& tokenizer) {
  std::erase_if(stop.stop_strings, [&](const std::string& text) {
    const std::optional<decant::Token> id = tokenizer.id_of(text);
    if (!id || !tokenizer.is_special(*id)) return false;
    stop.stop_tokens.push_back(*id);
    return true;
  });
}

}  // namespace examples
