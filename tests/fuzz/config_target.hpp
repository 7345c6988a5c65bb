// tests/fuzz/config_target.hpp - one configuration of unknown worth, read to the end.
#pragma once

#include <decant/checkpoints/detail/hf_config.hpp>

#include <exception>
#include <string_view>

namespace decant::fuzz {

// Whether `text` is a configuration. Anything but a configuration or a FormatError is a fault of
// the reader, and so is a configuration that contradicts itself.
inline bool accepts_config(std::string_view text) {
  try {
    const checkpoints::detail::CheckpointConfig config =
        checkpoints::detail::parse_hf_config(text, "config.json");
    model::check(config.model);
    for (Token token : config.end_tokens) {
      if (token < 0 || token >= config.model.vocabulary) std::terminate();
    }
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

}  // namespace decant::fuzz
