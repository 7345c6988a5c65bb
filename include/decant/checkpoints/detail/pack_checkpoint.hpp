// decant/checkpoints/detail/pack_checkpoint.hpp - definition of checkpoints/pack_checkpoint.hpp.
//
// Tested by   tests/checkpoints/packed_checkpoint_test.cpp
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/checkpoints/detail/packed_checkpoint.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/checkpoints/pack_checkpoint.hpp>
#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/resources.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kernels/matrix.hpp>

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints {

namespace detail {

// What a packed file will hold, in order; it borrows all bytes. Matrices must come first: what
// stands before them is a multiple of 64 bytes.
class PackedContents {
 public:
  PackedContents() : metadata_{{std::string(kPackedKey), std::string(kPackedVersion)}} {}

  void add(const std::string& name, std::span<const std::byte> bytes) {
    add(name, "U8", std::ssize(bytes), bytes);
  }
  void add(const std::string& name, const std::vector<float>& values) {
    if (!values.empty()) add(name, "F32", std::ssize(values), std::as_bytes(std::span(values)));
  }
  void add(const std::string& name, const kernels::Matrix& matrix) {
    if (matrix.empty()) return;
    const kernels::Panels panels = matrix.panels();
    metadata_[name] = sentence(codec::name(panels.type), " ", panels.rows, " ", panels.columns, " ",
                               panels.bytes);
    add(name, "U8", round_up(panels.bytes, kernels::kPanelAlignment),
        {panels.memory.get(), static_cast<std::size_t>(panels.bytes)});
  }

  void write(const std::filesystem::path& path) const {
    static constexpr std::array<std::byte, kernels::kPanelAlignment> kZeros = {};
    files::SealedWriter writer(path, metadata_, entries_);
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      writer.write(bytes_[at]);
      if (entries_[at].dtype == "U8") {
        writer.write(std::span(kZeros).first(static_cast<std::size_t>(entries_[at].shape[0]) -
                                             bytes_[at].size()));
      }
    }
    writer.commit();
  }

 private:
  void add(const std::string& name, std::string_view dtype, Index extent,
           std::span<const std::byte> bytes) {
    entries_.push_back({name, dtype, {extent}});
    bytes_.push_back(bytes);
  }

  files::SealedWriter::Metadata metadata_;
  std::vector<files::SealedWriter::Entry> entries_;
  std::vector<std::span<const std::byte>> bytes_;
};

// The tokenizer of a checkpoint: what its files are called, and their bytes.
inline std::map<std::string, std::vector<std::byte>> tokenizer_of(
    const std::filesystem::path& from) {
  if (files::is_gguf(from)) {
    return {{"tokenizer.gguf", files::Gguf::open(from).without_tensors()}};
  }
  std::map<std::string, std::vector<std::byte>> result;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::error_code absent;
    if (!std::filesystem::exists(from / name, absent)) continue;
    const files::MappedFile file(from / name);
    result[name].assign(file.bytes().begin(), file.bytes().end());
  }
  return result;
}

}  // namespace detail

DECANT_IO_INLINE void pack_checkpoint(const std::filesystem::path& from,
                                      const std::filesystem::path& to, const LoadOptions& options,
                                      const Resources& resources) {
  expects<FormatError>(!files::is_safetensors(from), files::printable_path(from),
                       ": is no folder and no GGUF file");
  const Checkpoint checkpoint = load_checkpoint(from, options, resources);
  const std::string config = detail::to_json(checkpoint);
  const auto tokenizer = detail::tokenizer_of(from);
  detail::PackedContents contents;
  detail::for_each_parameter(checkpoint.weights,
                             [&]<class T>(const std::string& at, const T& part) {
                               if constexpr (std::is_same_v<T, kernels::Matrix>)
                                 contents.add(at, part);
                             });
  detail::for_each_parameter(checkpoint.weights,
                             [&]<class T>(const std::string& at, const T& part) {
                               if constexpr (!std::is_same_v<T, kernels::Matrix>)
                                 contents.add(at, part);
                             });
  contents.add(std::string(detail::kPackedScore), checkpoint.score.weight);
  contents.add(std::string(detail::kPackedConfig), std::as_bytes(std::span(config)));
  for (const auto& [name, bytes] : tokenizer) contents.add(name, bytes);
  contents.write(to);
}

}  // namespace decant::inline DECANT_ABI::checkpoints
