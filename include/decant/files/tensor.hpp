// decant/files/tensor.hpp - tensors as they lie in files, and tables of them by name.
//
// Readers of files produce these, readers of weights consume them; neither knows the other. That
// is what lets one loader of a family read every kind of file.
//
// Tested by   tests/files/safetensors_test.cpp, tests/files/gguf_test.cpp,
// tests/files/tensor_files_test.cpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::files {

// An element format that a file may hold, and the codec that reads it, if there is one: tensors of
// the other formats may be in a file but cannot be weights.
//
// Units    bits of one block of `block` elements, which is one element in formats without blocks
struct Dtype {
  std::string_view name;
  Index bits;
  std::optional<codec::Type> codec = std::nullopt;
  Index block = 1;
};

// Shape    extents from the outermost; none at all is a scalar
struct Tensor {
  const Dtype* dtype = nullptr;
  std::vector<Index> shape;
  std::span<const std::byte> data;
};

// A shape as sentences write it: "[11, 8]".
inline std::string shape_text(std::span<const Index> shape) {
  std::string text = "[";
  for (Index extent : shape) text += sentence(text.size() > 1 ? ", " : "", extent);
  return text + "]";
}

// The bytes that a shape takes; nothing if their count does not fit in 63 bits or the last block or
// byte would be incomplete.
inline std::optional<Index> bytes_of(std::span<const Index> shape, const Dtype& dtype) {
  if (std::ranges::find(shape, Index{0}) != shape.end()) return 0;
  Index product = dtype.bits;
  for (Index extent : shape) {
    if (extent > std::numeric_limits<Index>::max() / product) return std::nullopt;
    product *= extent;
  }
  const Index unit = 8 * dtype.block;
  return product % unit == 0 ? std::optional(product / unit) : std::nullopt;
}

// The tensors of a checkpoint by name, in whichever of its files they lie. It borrows both tensors
// and file names.
//
// Threads  const access may overlap
class TensorTable {
 public:
  struct Entry {
    const Tensor* tensor = nullptr;
    std::string_view file;  // as sentences name it
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  explicit TensorTable(std::string name) : name_(std::move(name)) {}

  void add(const std::string& tensor, const Entry& entry) { entries_.emplace(tensor, entry); }

  // How sentences about the whole checkpoint name it.
  const std::string& name() const noexcept { return name_; }
  const Entries& entries() const noexcept { return entries_; }
  const Entry* find(std::string_view tensor) const {
    const auto found = entries_.find(tensor);
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  std::string name_;
  Entries entries_;
};

}  // namespace decant::inline DECANT_ABI::files
