// decant/io/load_tokenizer.hpp - the tokenizer of a checkpoint, wherever it lies.
//
// Depends on  io/gguf_tokenizer.hpp, io/tokenizer.hpp
// Tested by   tests/io/gguf_tokenizer_test.cpp
#pragma once

#include <decant/io/gguf.hpp>
#include <decant/io/gguf_tokenizer.hpp>
#include <decant/io/tokenizer.hpp>

#include <filesystem>

namespace decant::inline v0::io {

// That of a folder with a tokenizer.json, or of a GGUF file.
//
// Errors   FormatError naming file, and field or key
inline Tokenizer load_tokenizer(const std::filesystem::path& path) {
  return is_gguf(path) ? read_gguf_tokenizer(Gguf::open(path))
                       : Tokenizer::open(path / "tokenizer.json");
}

}  // namespace decant::inline v0::io
