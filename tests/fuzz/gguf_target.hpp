// tests/fuzz/gguf_target.hpp - one GGUF file of unknown worth, read to the end and used.
#pragma once

#include "fuzz/tokenizer_target.hpp"

#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/files/gguf.hpp>
#include <decant/model/weights.hpp>
#include <decant/text/detail/gguf_tokenizer.hpp>

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace decant::fuzz {

// Whether `file` holds a model. One that is read must be whole.
inline bool accepts_model(const files::Gguf& file) {
  try {
    const checkpoints::Checkpoint checkpoint = checkpoints::load_checkpoint(file);
    model::check(checkpoint.config);
    model::check(checkpoint.config, checkpoint.weights);
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

inline bool accepts_gguf_tokenizer(const files::Gguf& file) {
  try {
    const text::Tokenizer tokenizer = text::load_tokenizer(file);
    for (const char* text : {"", "a", " Hello  world\n\n", "ab aab 12 345's", "<s>a</s> <s>",
                             "caf\u00e9 e\u0301 \u65e5\u672c \U0001F44D \u2581\uFFFD"}) {
      use(tokenizer, text);
    }
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

// Whether `bytes` are a GGUF file, with or without a model and a tokenizer. Anything but a file or
// a FormatError is a fault of the reader, and so are tensors beyond the file.
inline bool accepts_gguf(std::span<const std::byte> bytes) {
  try {
    const files::Gguf file = files::Gguf::parse(bytes, "fuzz.gguf");
    std::size_t covered = 0;
    std::size_t sum = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      covered += tensor.data.size();
      for (std::byte each : tensor.data) sum += std::to_integer<std::size_t>(each);
    }
    expect(covered <= bytes.size() && sum <= 255 * covered);
    accepts_model(file);
    accepts_gguf_tokenizer(file);
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

}  // namespace decant::fuzz
