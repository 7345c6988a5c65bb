// decant/files/safetensors.hpp - named tensors in one file, checked before any of them is used.
//
//   8 bytes      length of the header, little-endian
//   header       a JSON object: name -> {dtype, shape, data_offsets: [begin, end)}; the offsets
//                count from the end of the header. "__metadata__" maps strings to strings
//   data         little-endian, row-major
//
// A file is accepted when its tensors tile the data exactly: no hole, no overlap, nothing behind
// the last one, and each as long as its shape and dtype say. Order in the header is free, and data
// need not be aligned. A zero extent makes an empty tensor, whatever the other extents are.
//
// Source      the format's description in the safetensors repository (README, "Format")
// Tested by   tests/files/safetensors_test.cpp, tests/fuzz/safetensors_target.hpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/types.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::files {

inline constexpr std::array kDtypes = {
    Dtype{"F32", 32, codec::Type::f32},
    Dtype{"BF16", 16, codec::Type::bf16},
    Dtype{"F16", 16, codec::Type::f16},
    Dtype{"F64", 64},
    Dtype{"I64", 64},
    Dtype{"U64", 64},
    Dtype{"C64", 64},
    Dtype{"I32", 32},
    Dtype{"U32", 32},
    Dtype{"I16", 16},
    Dtype{"U16", 16},
    Dtype{"I8", 8},
    Dtype{"U8", 8},
    Dtype{"BOOL", 8},
    Dtype{"F8_E4M3", 8},
    Dtype{"F8_E5M2", 8},
    Dtype{"F8_E8M0", 8},
    Dtype{"F6_E2M3", 6},
    Dtype{"F6_E3M2", 6},
    Dtype{"F4", 4},
};

// The tensors of one file, by name. Spans point into the file, which a Safetensors from open()
// owns and one from parse() borrows. Move-only.
//
// Errors   FormatError naming the file, and the tensor where one is at fault
// Cost     O(header); the data is not touched
// Threads  const access may overlap
class Safetensors {
 public:
  static constexpr std::uint64_t kMaxHeader = 100'000'000;  // bytes, the format's own limit
  static constexpr std::size_t kMaxRank = 32;

  static Safetensors open(const std::filesystem::path& path);
  static Safetensors parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const noexcept { return name_; }
  const std::map<std::string, Tensor, std::less<>>& tensors() const noexcept { return tensors_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const noexcept {
    return metadata_;
  }

 private:
  explicit Safetensors(std::string name) : name_(std::move(name)) {}

  class Reader;  // fills one from a file's header
  void check_tiling(std::span<const std::byte> data) const;

  std::string name_;
  std::optional<MappedFile> file_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace decant::inline DECANT_ABI::files

#ifndef DECANT_COMPILED_IO
#include <decant/files/detail/safetensors.hpp>
#endif
