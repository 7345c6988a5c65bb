#include "fuzz/readers.hpp"

#include "fuzz/config_target.hpp"
#include "fuzz/gguf_target.hpp"
#include "fuzz/packed_target.hpp"
#include "fuzz/safetensors_target.hpp"
#include "fuzz/snapshot_target.hpp"
#include "fuzz/tokenizer_target.hpp"

#include <string_view>

namespace decant::fuzz {

namespace {

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void config(std::span<const std::byte> bytes) { accepts_config(text(bytes)); }
void gguf(std::span<const std::byte> bytes) { accepts_gguf(bytes); }
void packed(std::span<const std::byte> bytes) { accepts_packed(bytes); }
void safetensors(std::span<const std::byte> bytes) { accepts_safetensors(bytes); }
void snapshot(std::span<const std::byte> bytes) { accepts_snapshot(bytes); }
void tokenizer(std::span<const std::byte> bytes) { accepts_tokenizer(text(bytes)); }

}  // namespace decant::fuzz
