// tests/files/written_gguf.hpp - small GGUF files that tests write, right and wrong ones.
//
#pragma once

#include <decant/files/gguf.hpp>
#include <decant/files/gguf_value.hpp>

#include "files/written_files.hpp"

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::trial {

using files::GgufType;

inline std::string gguf_text(std::string_view text) {
  return little_endian(text.size()).append(text);
}
inline std::string gguf_f32(float number) {
  return little_endian(std::bit_cast<std::uint32_t>(number), 4);
}
inline std::string gguf_type(GgufType type) {
  return little_endian(static_cast<std::uint64_t>(type), 4);
}
// An array of `count` elements, whether or not they are there.
inline std::string gguf_array(GgufType type, std::uint64_t count, std::string_view elements) {
  return gguf_type(type).append(little_endian(count)).append(elements);
}

// A tensor as it is written: extents with the fastest one first, and where its data is said to be.
struct WrittenTensor {
  std::string name;
  std::vector<std::uint64_t> extents;
  std::uint64_t format = 0;
  std::string data;
  std::optional<std::uint64_t> offset = std::nullopt;  // else where the data is
};

class WrittenGguf {
 public:
  // Replaces what was there.
  void set(const std::string& key, GgufType type, const std::string& bytes) {
    remove(key);
    entries_.push_back({key, gguf_type(type) + bytes});
  }
  // Adds, even what is there.
  void add_entry(const std::string& key, const std::string& type_and_bytes) {
    entries_.push_back({key, type_and_bytes});
  }
  void remove(const std::string& key) {
    std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
  }
  void number(const std::string& key, std::uint64_t value) {
    set(key, GgufType::u32, little_endian(value, 4));
  }
  void real(const std::string& key, float value) { set(key, GgufType::f32, gguf_f32(value)); }
  void flag(const std::string& key, bool value) {
    set(key, GgufType::flag, std::string(1, value ? '\1' : '\0'));
  }
  void text(const std::string& key, std::string_view value) {
    set(key, GgufType::text, gguf_text(value));
  }
  void texts(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes;
    for (const std::string& value : values) bytes += gguf_text(value);
    set(key, GgufType::array, gguf_array(GgufType::text, values.size(), bytes));
  }
  void integers(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string bytes;
    for (std::int32_t value : values) bytes += little_endian(static_cast<std::uint32_t>(value), 4);
    set(key, GgufType::array, gguf_array(GgufType::i32, values.size(), bytes));
  }
  void reals(const std::string& key, const std::vector<float>& values) {
    std::string bytes;
    for (float value : values) bytes += gguf_f32(value);
    set(key, GgufType::array, gguf_array(GgufType::f32, values.size(), bytes));
  }

  // f32 values 1, 2, 3... up to 97, and again, as TensorSet::add; the shape outermost first.
  void add(const std::string& name, const std::vector<Index>& shape) {
    Index count = 1;
    for (Index extent : shape) count *= extent;
    std::vector<float> values;
    for (Index i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 97 + 1));
    add_values(name, shape, values);
  }
  void add_values(const std::string& name, const std::vector<Index>& shape,
                  const std::vector<float>& values) {
    std::string data;
    for (float value : values) data += gguf_f32(value);
    tensor({name, {shape.rbegin(), shape.rend()}, 0, data});
  }
  // Replaces what was there.
  void tensor(WrittenTensor written) {
    without(written.name);
    tensors.push_back(std::move(written));
  }
  void without(const std::string& name) {
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == name; });
  }

  std::string bytes() const {
    std::string file = "GGUF" + little_endian(version, 4) + little_endian(tensors.size()) +
                       little_endian(entries_.size());
    for (const auto& [key, value] : entries_) file += gguf_text(key) + value;
    std::string data;
    for (const WrittenTensor& tensor : tensors) {
      data.resize((data.size() + alignment - 1) / alignment * alignment);
      file += gguf_text(tensor.name) + little_endian(tensor.extents.size(), 4);
      for (std::uint64_t extent : tensor.extents) file += little_endian(extent);
      file += little_endian(tensor.format, 4) + little_endian(tensor.offset.value_or(data.size()));
      data += tensor.data;
    }
    if (!tensors.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data;
  }

  std::uint64_t version = 3;
  std::size_t alignment = 32;
  std::vector<WrittenTensor> tensors;

  // The model of WrittenCheckpoint::llama, with the same values.
  static WrittenGguf llama(const std::string& architecture = "llama") {
    WrittenGguf file;
    file.text("general.architecture", architecture);
    const auto sizes = std::vector<std::pair<const char*, std::uint64_t>>{
        {"vocab_size", 11},          {"embedding_length", 8},        {"block_count", 2},
        {"attention.head_count", 2}, {"attention.head_count_kv", 1}, {"feed_forward_length", 10},
        {"attention.key_length", 6}, {"attention.value_length", 6},  {"context_length", 2048}};
    for (const auto& [name, value] : sizes) file.number(architecture + "." + name, value);
    file.real(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
    file.add("token_embd.weight", {11, 8});
    file.add("output_norm.weight", {8});
    file.add("output.weight", {11, 8});
    for (const char* layer : {"blk.0.", "blk.1."}) {
      const std::string at = layer;
      file.add(at + "attn_norm.weight", {8});
      file.add(at + "ffn_norm.weight", {8});
      file.add(at + "attn_q.weight", {12, 8});
      file.add(at + "attn_k.weight", {6, 8});
      file.add(at + "attn_v.weight", {6, 8});
      file.add(at + "attn_output.weight", {8, 12});
      file.add(at + "ffn_gate.weight", {10, 8});
      file.add(at + "ffn_up.weight", {10, 8});
      file.add(at + "ffn_down.weight", {8, 10});
    }
    return file;
  }

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

// The file must outlive what is parsed from it.
inline files::Gguf parse_gguf(std::string_view file) {
  return files::Gguf::parse(bytes_of(file), "f.gguf");
}

}  // namespace decant::trial
