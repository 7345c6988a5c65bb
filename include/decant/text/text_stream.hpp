// decant/text/text_stream.hpp - the text of a run of tokens while it grows.
//
// What push gives may be shown at once: it is whole characters, and no later token changes it.
// Bytes of a half-finished character are held back; if the stream ends in one, finish gives U+FFFD
// for it. All pieces together are what Tokenizer::decode gives for all tokens.
//
// An answer continues its prompt: made with the prompt's tokens, a stream knows that the answer's
// first space is a real one, and gives the text of prompt and answer less that of the prompt.
//
// Tested by   tests/text/text_stream_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/text/detail/token_decoder.hpp>
#include <decant/text/tokenizer.hpp>

#include <span>
#include <string>
#include <utility>

namespace decant::inline v0::text {

// Errors   from push and from the constructor: std::invalid_argument for a negative id, and the
//          stream is as it was; FormatError where a replacement of the file grows too much, and the
//          stream is over then. An id without a token has no text
// Cost     push is linear in the text of its token, whatever came before
// Threads  one stream at a time; streams of one tokenizer are independent
class TextStream {
 public:
  explicit TextStream(Tokenizer tokenizer, std::span<const Token> prompt = {},
                      bool skip_special = true)
      : tokenizer_(std::move(tokenizer)),
        run_(tokenizer_.parts_->decoder),
        skip_special_(skip_special) {
    for (const Token token : prompt) push(token);
  }

  // The text that is certain now; often empty.
  std::string push(Token token) { return tokenizer_.push(run_, token, skip_special_); }

  // What was held back. The stream is then over.
  std::string finish() { return run_.finish(); }

 private:
  Tokenizer tokenizer_;
  detail::TokenDecoder::Run run_;
  bool skip_special_;
};

}  // namespace decant::inline v0::text
