// decant/checkpoints/detail/gguf_keys.hpp - the metadata keys of one architecture, such as
// "llama.block_count".
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md)
// Tested by   tests/checkpoints/gguf_config_test.cpp
#pragma once

#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace decant::inline DECANT_ABI::checkpoints::detail {

// Borrows the metadata. Names are without the architecture.
//
// Errors   FormatError naming file and key
class GgufKeys {
 public:
  GgufKeys(const files::GgufMetadata& metadata, std::string architecture)
      : metadata_(&metadata), architecture_(std::move(architecture)) {}

  const files::GgufMetadata& metadata() const noexcept { return *metadata_; }
  std::string key(std::string_view name) const { return sentence(architecture_, ".", name); }
  std::string place(std::string_view name) const { return metadata_->place(key(name)); }
  bool has(std::string_view name) const { return metadata_->has(key(name)); }

  // An integer in [1, most].
  Index extent(std::string_view name, Index most = kMaxExtent) const {
    return checked_extent(metadata_->integer(key(name)), place(name), most);
  }
  Index extent_or(std::string_view name, Index otherwise) const {
    return has(name) ? extent(name) : otherwise;
  }
  // A number in (0, 1e18].
  double positive_or(std::string_view name, double otherwise) const {
    return checked_positive(metadata_->number_or(key(name), otherwise), place(name));
  }

 private:
  const files::GgufMetadata* metadata_;
  std::string architecture_;
};

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
