// decant/text/load_tokenizer.hpp - the tokenizer of a checkpoint, wherever it lies.
//
// Tested by   tests/text/gguf_tokenizer_test.cpp
#pragma once

#include <decant/files/gguf.hpp>
#include <decant/text/detail/gguf_tokenizer.hpp>
#include <decant/text/tokenizer.hpp>

#include <filesystem>

namespace decant::inline v0::text {

// That of a folder with a tokenizer.json, or of a GGUF file.
//
// Errors   FormatError naming file, and field or key
inline Tokenizer load_tokenizer(const std::filesystem::path& path) {
  return files::is_gguf(path) ? detail::read_gguf_tokenizer(files::Gguf::open(path))
                              : Tokenizer::open(path / "tokenizer.json");
}

}  // namespace decant::inline v0::text
