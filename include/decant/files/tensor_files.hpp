// decant/files/tensor_files.hpp - the tensors of a checkpoint folder, in one file or in shards.
//
// `model.safetensors` holds everything, or `model.safetensors.index.json` says which shard holds
// what. Index and shards must agree on every name: a stale index would otherwise hide a tensor
// or name one that is not there.
//
// Source      Hugging Face hub, the layout of sharded checkpoints
// Tested by   tests/files/tensor_files_test.cpp
#pragma once

#include <decant/files/safetensors.hpp>
#include <decant/files/tensor.hpp>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::files {

// Move-only; the files stay open, and tensors valid, as long as it lives.
//
// Errors   FormatError naming file and tensor
// Threads  const access may overlap
class TensorFiles {
 public:
  static TensorFiles open(const std::filesystem::path& folder);

  // Borrows the files.
  const TensorTable& table() const noexcept { return table_; }

 private:
  explicit TensorFiles(std::string name) : table_(std::move(name)) {}

  void add_single(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& folder, const std::filesystem::path& index);

  std::vector<Safetensors> files_;
  TensorTable table_;
};

}  // namespace decant::inline DECANT_ABI::files

#ifndef DECANT_COMPILED_IO
#include <decant/files/detail/tensor_files.hpp>
#endif
