// decant/text/text_stream.hpp - the text of a run of tokens while it grows.
//
// What push returns may be shown at once: it is complete characters, and no later token changes it.
// Bytes of an incomplete character are held back; if the stream ends in one, finish returns U+FFFD
// for it. All pieces together are what Tokenizer::decode returns for all tokens.
//
// An answer continues its prompt: made with the prompt's tokens, a stream knows that the answer's
// first space is a real one, and gives the text of prompt and answer less that of the prompt.
//
// Tested by   tests/text/text_stream_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/text/tokenizer.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace decant::inline DECANT_ABI::text {

namespace detail {
class DecoderRun;
}

// A copy continues on its own. A stream that was moved from can only be assigned to or destroyed.
//
// Errors   from push and from the constructor: std::invalid_argument for a negative id, and the
//          stream is as it was; FormatError if a replacement of the file grows too much, after
//          which the stream cannot be used. An id without a token has no text
// Cost     push is linear in the text of its token, whatever came before
// Threads  one stream at a time; streams of one tokenizer are independent
class TextStream {
 public:
  explicit TextStream(Tokenizer tokenizer, std::span<const Token> prompt = {},
                      bool skip_special = true);
  TextStream(const TextStream& other);
  TextStream(TextStream&&) noexcept;
  TextStream& operator=(const TextStream& other);
  TextStream& operator=(TextStream&&) noexcept;
  ~TextStream();

  // The text that is certain now; often empty.
  [[nodiscard]] std::string push(Token token);

  // What was held back. The stream is then over.
  [[nodiscard]] std::string finish();

  // push(), or finish() without a token: so a stream of the prompt can be GenerateOptions::text.
  [[nodiscard]] std::string operator()(std::optional<Token> token) {
    return token ? push(*token) : finish();
  }

 private:
  Tokenizer tokenizer_;
  std::unique_ptr<detail::DecoderRun> run_;
  bool skip_special_;
};

}  // namespace decant::inline DECANT_ABI::text

#ifndef DECANT_COMPILED_IO
#include <decant/text/detail/text_stream.hpp>
#endif
