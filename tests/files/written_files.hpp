// tests/files/written_files.hpp - small files that tests write, right and wrong ones.
//
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::trial {

static_assert(std::endian::native == std::endian::little);

// A folder of its own that is removed with everything in it.
class Folder {
 public:
  Folder() {
    std::random_device device;
    path_ = std::filesystem::temp_directory_path() /
            ("decant-" + std::to_string(device()) + "-" + std::to_string(device()));
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The first `count` bytes of `value`, least significant first.
inline std::string little_endian(std::uint64_t value, std::size_t count = 8) {
  std::string bytes(count, '\0');
  std::memcpy(bytes.data(), &value, count);
  return bytes;
}

// A safetensors file of any header and data, whether or not they fit.
inline std::string safetensors(std::string_view header, std::string_view data = {}) {
  return little_endian(header.size()).append(header).append(data);
}

// One number as the bytes of a dtype; integers below 256 are exact in all of them.
inline std::string cell(std::string_view dtype, float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  if (dtype == "BF16") return little_endian(bits >> 16, 2);
  if (dtype != "F16") return little_endian(bits, 4);
  const std::uint32_t exponent = bits >> 23 & 0xFF;
  const std::uint32_t half = exponent == 0 ? 0 : (exponent - 112) << 10 | (bits >> 13 & 0x3FF);
  return little_endian(half | (bits >> 16 & 0x8000), 2);
}

// Tensors by name, written in that order.
class TensorSet {
 public:
  // The values 1, 2, 3... up to 97, and again.
  void add(const std::string& name, std::vector<Index> shape, const std::string& dtype = "F32") {
    Index count = 1;
    for (Index extent : shape) count *= extent;
    std::vector<float> values;
    for (Index i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 97 + 1));
    add_values(name, std::move(shape), values, dtype);
  }
  void add_values(const std::string& name, std::vector<Index> shape,
                  const std::vector<float>& values, const std::string& dtype = "F32") {
    Tensor tensor{dtype, std::move(shape), {}};
    for (float value : values) tensor.data += cell(dtype, value);
    tensors_[name] = std::move(tensor);
  }
  void remove(const std::string& name) { tensors_.erase(name); }
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }

  // The part of the set whose names `chosen` accepts.
  template <class Chosen>
  TensorSet part(Chosen chosen) const {
    TensorSet result;
    for (const auto& [name, tensor] : tensors_) {
      if (chosen(name)) result.tensors_[name] = tensor;
    }
    return result;
  }

  std::string file() const {
    std::string header, data;
    for (const auto& [name, tensor] : tensors_) {
      header += (header.empty() ? "{\"" : ",\"") + name + "\":{\"dtype\":\"" + tensor.dtype +
                "\",\"shape\":[";
      for (Index extent : tensor.shape) {
        header += (header.back() == '[' ? "" : ",") + std::to_string(extent);
      }
      header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
      data += tensor.data;
      header += std::to_string(data.size()) + "]}";
    }
    return safetensors(header.empty() ? "{}" : header + "}", data);
  }

 private:
  struct Tensor {
    std::string dtype;
    std::vector<Index> shape;
    std::string data;
  };
  std::map<std::string, Tensor> tensors_;
};

// Holds where `action` throws a FormatError whose sentence contains every one of `parts`.
template <class Action>
::testing::AssertionResult refuses(Action&& action, std::initializer_list<std::string_view> parts) {
  try {
    action();
  } catch (const FormatError& error) {
    const std::string_view sentence = error.what();
    for (std::string_view part : parts) {
      if (sentence.find(part) == std::string_view::npos) {
        return ::testing::AssertionFailure() << "no \"" << part << "\" in: " << sentence;
      }
    }
    return ::testing::AssertionSuccess() << sentence;
  }
  return ::testing::AssertionFailure() << "accepted";
}

}  // namespace decant::trial
