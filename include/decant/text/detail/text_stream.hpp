// decant/text/detail/text_stream.hpp - definitions of text/text_stream.hpp.
//
// Tested by   tests/text/text_stream_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/text/detail/token_decoder.hpp>
#include <decant/text/detail/tokenizer_parts.hpp>
#include <decant/text/text_stream.hpp>

#include <memory>
#include <span>
#include <string>
#include <utility>

namespace decant::inline DECANT_ABI::text {

DECANT_IO_INLINE TextStream::TextStream(Tokenizer tokenizer, std::span<const Token> prompt,
                                        bool skip_special)
    : tokenizer_(std::move(tokenizer)),
      run_(std::make_unique<detail::DecoderRun>(tokenizer_.parts_->decoder)),
      skip_special_(skip_special) {
  for (const Token token : prompt) static_cast<void>(push(token));
}

DECANT_IO_INLINE TextStream::TextStream(const TextStream& other)
    : tokenizer_(other.tokenizer_),
      run_(std::make_unique<detail::DecoderRun>(*other.run_)),
      skip_special_(other.skip_special_) {}
DECANT_IO_INLINE TextStream& TextStream::operator=(const TextStream& other) {
  return *this = TextStream(other);
}
DECANT_IO_INLINE TextStream::TextStream(TextStream&&) noexcept = default;
DECANT_IO_INLINE TextStream& TextStream::operator=(TextStream&&) noexcept = default;
DECANT_IO_INLINE TextStream::~TextStream() = default;

DECANT_IO_INLINE std::string TextStream::push(Token token) {
  return tokenizer_.parts_->push(*run_, token, skip_special_);
}

DECANT_IO_INLINE std::string TextStream::finish() { return run_->finish(); }

}  // namespace decant::inline DECANT_ABI::text
