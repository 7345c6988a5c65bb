// examples/support/shown_text.hpp - the text of tokens, up to a stop string.
//
// Tested by   tests/examples/agreements.cmake
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/stop.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>

#include <span>
#include <string>
#include <vector>

namespace examples {

// Complete characters, up to the first of some stop strings.
class ShownText {
 public:
  ShownText(const decant::text::Tokenizer& tokenizer, std::span<const decant::Token> prompt,
            const std::vector<std::string>& stops)
      : stream_(tokenizer, prompt), stops_(stops) {}

  // What may be shown now, and what was held back at the end.
  std::string push(decant::Token token) { return stops_.push(stream_.push(token)); }
  std::string finish() { return stops_.push(stream_.finish()) + stops_.finish(); }

  // Whether a stop string was found.
  bool stopped() const noexcept { return stops_.stopped(); }

 private:
  decant::text::TextStream stream_;
  decant::decoding::StopText stops_;
};

}  // namespace examples
