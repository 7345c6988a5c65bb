// decant/files/detail/tensor_files.hpp - definitions of files/tensor_files.hpp.
//
// Tested by   tests/files/tensor_files_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/json.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/tensor_files.hpp>
#include <decant/files/utf8.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace decant::inline DECANT_ABI::files {

namespace detail {

// A shard lies beside its index: a name with a folder in it could read any file of the machine.
inline bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// The inverse of weight_map: shard -> the tensors that it is said to hold.
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

DECANT_IO_INLINE TensorFiles TensorFiles::open(const std::filesystem::path& folder) {
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

DECANT_IO_INLINE void TensorFiles::add_single(const std::filesystem::path& path) {
  const Safetensors& file = files_.emplace_back(Safetensors::open(path));
  for (const auto& [name, tensor] : file.tensors()) {
    table_.add(name, {&tensor, file.name()});
  }
}

DECANT_IO_INLINE void TensorFiles::add_shards(const std::filesystem::path& folder,
                                              const std::filesystem::path& index) {
  const MappedFile text(index);
  const Json json = parse_json(text.text(), table_.name());
  const auto shards = detail::shards_of(JsonObject(json, table_.name()));
  files_.reserve(shards.size());  // the table points into it
  for (const auto& [shard, names] : shards) {
    const Safetensors& file = files_.emplace_back(Safetensors::open(folder / shard));
    for (const std::string& name : names) {
      const auto found = file.tensors().find(name);
      expects<FormatError>(found != file.tensors().end(), file.name(), ": has no tensor ",
                           printable(name), ", which ", table_.name(), " says is there");
      table_.add(name, {&found->second, file.name()});
    }
    for (const auto& [name, tensor] : file.tensors()) {
      const TensorTable::Entry* entry = table_.find(name);
      expects<FormatError>(entry != nullptr && entry->tensor == &tensor, file.name(),
                           ": holds a tensor ", printable(name), ", which ", table_.name(),
                           " does not place there");
    }
  }
}

}  // namespace decant::inline DECANT_ABI::files
