// decant/io/tensor_files.hpp - the tensors of a checkpoint folder, in one file or in shards.
//
// `model.safetensors` holds everything, or `model.safetensors.index.json` says which shard holds
// what. Index and shards must agree on every name: a stale index would otherwise hide a tensor
// or name one that is not there.
//
// Depends on  io/json.hpp, io/safetensors.hpp
// Source      Hugging Face hub, the layout of sharded checkpoints
// Tested by   tests/io/tensor_files_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/io/json.hpp>
#include <decant/io/mapped_file.hpp>
#include <decant/io/safetensors.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace decant::inline v0::io {

// Move-only; the files stay open, and tensors valid, as long as it lives.
//
// Errors   FormatError naming file and tensor
// Threads  const access may overlap
class TensorFiles {
 public:
  struct Entry {
    const Tensor* tensor = nullptr;
    std::string_view file;  // as sentences name it
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  static TensorFiles open(const std::filesystem::path& folder);

  // Where a sentence about the whole checkpoint says that it stands.
  const std::string& name() const noexcept { return name_; }
  const Entries& entries() const noexcept { return entries_; }
  const Entry* find(std::string_view tensor) const {
    const auto found = entries_.find(tensor);
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  explicit TensorFiles(std::string name) : name_(std::move(name)) {}

  void add_single(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& folder, const std::filesystem::path& index);

  std::string name_;
  std::vector<Safetensors> files_;
  Entries entries_;
};

namespace detail {

// A shard lies beside its index: a name with a folder in it could read any file of the machine.
inline bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// weight_map turned around: shard -> the tensors that it is said to hold.
inline std::map<std::string, std::vector<std::string>> shards_of(const JsonObject& index) {
  std::map<std::string, std::vector<std::string>> shards;
  const JsonObject map(index.at("weight_map"), index.file(), "weight_map");
  for (const auto& [tensor, value] : map.json().items()) {
    const std::string shard = JsonObject::as_text(value, map.place(tensor));
    expects<FormatError>(is_plain_file_name(shard), map.place(tensor), " is \"", printable(shard),
                         "\", not the name of a file beside the index");
    shards[shard].push_back(tensor);
  }
  return shards;
}

}  // namespace detail

inline TensorFiles TensorFiles::open(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  const bool one = std::filesystem::exists(single, ignored);
  expects<FormatError>(one || std::filesystem::exists(index, ignored), printable_path(folder),
                       ": holds neither model.safetensors nor model.safetensors.index.json");
  TensorFiles files(printable_path(one ? single : index));
  one ? files.add_single(single) : files.add_shards(folder, index);
  return files;
}

inline void TensorFiles::add_single(const std::filesystem::path& path) {
  const Safetensors& file = files_.emplace_back(Safetensors::open(path));
  for (const auto& [name, tensor] : file.tensors()) {
    entries_.emplace(name, Entry{&tensor, file.name()});
  }
}

inline void TensorFiles::add_shards(const std::filesystem::path& folder,
                                    const std::filesystem::path& index) {
  const MappedFile text(index);
  const Json json = parse_json(text.text(), name_);
  const auto shards = detail::shards_of(JsonObject(json, name_));
  files_.reserve(shards.size());  // entries point into it
  for (const auto& [shard, names] : shards) {
    const Safetensors& file = files_.emplace_back(Safetensors::open(folder / shard));
    for (const std::string& name : names) {
      const auto found = file.tensors().find(name);
      expects<FormatError>(found != file.tensors().end(), file.name(), ": has no tensor ",
                           printable(name), ", which ", name_, " says is there");
      entries_.emplace(name, Entry{&found->second, file.name()});
    }
    for (const auto& [name, tensor] : file.tensors()) {
      const Entry* entry = find(name);
      expects<FormatError>(entry != nullptr && entry->tensor == &tensor, file.name(),
                           ": holds a tensor ", printable(name), ", which ", name_,
                           " does not place there");
    }
  }
}

}  // namespace decant::inline v0::io
