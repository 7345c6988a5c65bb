// tests/model/files.hpp - reference files beside a checkpoint: token lists and rows of logits.
#pragma once

#include <decant/core/types.hpp>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace decant::trial {

static_assert(std::endian::native == std::endian::little);

// Where published checkpoints lie on machines that have them; tests of them are skipped elsewhere.
inline const std::filesystem::path kSharedData = DECANT_SHARED_DATA;

// The token ids of a text file.
inline std::vector<Token> read_tokens(const std::filesystem::path& file) {
  std::ifstream in(file);
  return std::vector<Token>(std::istream_iterator<Token>(in), {});
}

// Rows of little-endian f32, as many as the file holds.
inline std::vector<std::vector<float>> read_logits(const std::filesystem::path& file,
                                                   Index vocabulary) {
  std::vector<std::vector<float>> rows;
  std::ifstream in(file, std::ios::binary);
  std::vector<float> row(static_cast<std::size_t>(vocabulary));
  const auto bytes = static_cast<std::streamsize>(row.size() * sizeof(float));
  while (in.read(reinterpret_cast<char*>(row.data()), bytes)) rows.push_back(row);
  return rows;
}

}  // namespace decant::trial
