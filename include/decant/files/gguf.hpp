// decant/files/gguf.hpp - metadata and named tensors in one file, checked before any of them is
// used.
//
//   4 bytes    "GGUF"
//   4 bytes    version, 2 or 3
//   8 bytes    count of tensors
//   8 bytes    count of metadata entries
//   metadata   key, value type, value
//   tensors    name, count of extents, extents (the fastest one first), number format, offset
//   data       from the next multiple of general.alignment (32) on, from where offsets count
//
// A file is accepted when every tensor lies in it, at a multiple of the alignment, and none on
// another. Bytes between and behind tensors are padding.
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md); block sizes: ggml
// Tested by   tests/files/{gguf,gguf_metadata}_test.cpp, tests/fuzz/gguf_target.hpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/files/gguf_value.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/tensor.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::files {

namespace detail {
class GgufCursor;
}

// The keys and values of a file, asked for by name and type. Borrows the bytes that it was read
// from.
//
// Errors   FormatError naming file and key: absent, of another type, out of range, or given twice
// Cost     reading is linear in the bytes, look-ups are logarithmic in the keys
// Threads  const access may overlap
class GgufMetadata {
 public:
  const std::string& file() const noexcept { return file_; }
  // How a sentence names a key: "model.gguf: general.alignment".
  std::string place(std::string_view key) const;

  Index size() const noexcept { return std::ssize(values_); }
  bool has(std::string_view key) const { return values_.contains(key); }
  const GgufValue& at(std::string_view key) const;

  Index integer(std::string_view key) const;
  Index integer_or(std::string_view key, Index otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  // A finite number of any type.
  double number(std::string_view key) const;
  double number_or(std::string_view key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }
  bool flag_or(std::string_view key, bool otherwise) const;
  std::string_view text(std::string_view key) const;
  std::string_view text_or(std::string_view key, std::string_view otherwise) const {
    return has(key) ? text(key) : otherwise;
  }

  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<Index> integers(std::string_view key) const;
  std::vector<double> reals(std::string_view key) const;

 private:
  friend class Gguf;
  using Bytes = std::span<const std::byte>;

  explicit GgufMetadata(std::string file) : file_(std::move(file)) {}
  void read(detail::GgufCursor& cursor, Index count);

  const GgufValue& scalar(std::string_view key) const;
  template <class Number, class F>
  std::vector<Number> elements(std::string_view key, F&& read) const;
  Index integer_of(GgufType type, Bytes bytes, std::string_view key) const;
  double number_of(GgufType type, Bytes bytes, std::string_view key) const;
  void expects_type(std::string_view key, bool held, std::string_view wanted) const;

  std::string file_;
  std::map<std::string_view, GgufValue> values_;
};

// A file. Spans point into its bytes, which a Gguf from open() owns and one from parse() borrows.
// Move-only.
//
// Errors   FormatError naming the file, and key, tensor or byte where one is at fault
// Cost     linear in what stands before the data, which is not touched
// Threads  const access may overlap
class Gguf {
 public:
  static constexpr std::uint64_t kMaxRank = 4;  // the format's own limit

  static Gguf open(const std::filesystem::path& path);
  static Gguf parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const noexcept { return metadata_.file(); }
  const GgufMetadata& metadata() const noexcept { return metadata_; }
  // Shapes have the slowest extent first, as everywhere else.
  const std::map<std::string, Tensor, std::less<>>& tensors() const noexcept { return tensors_; }
  // Borrows the file.
  TensorTable table() const;
  // A file with the same metadata and no tensors.
  std::vector<std::byte> without_tensors() const;

 private:
  explicit Gguf(std::string name) : metadata_(std::move(name)) {}

  void read_tensors(detail::GgufCursor& cursor, Index count);
  void check_overlap() const;

  std::optional<MappedFile> file_;
  std::span<const std::byte> front_;  // what stands before the tensors
  GgufMetadata metadata_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// Whether `path` is to be read as a GGUF file, not as a folder.
bool is_gguf(const std::filesystem::path& path);

}  // namespace decant::inline DECANT_ABI::files

#ifndef DECANT_COMPILED_IO
#include <decant/files/detail/gguf.hpp>
#endif
