// decant/checkpoints/detail/gguf_rope.hpp - what a GGUF file says about rotary positions.
//
// The llama3 rule is not written down as a rule: the file holds what the frequency of each rotary
// pair is divided by. The constants are those that every published model of that rule has; divisors
// that do not follow from them are refused, because a wrong rotation reads fluently for a page and
// then not.
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md); llama.cpp's converter
// Tested by   tests/checkpoints/gguf_config_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/checkpoints/detail/gguf_keys.hpp>
#include <decant/checkpoints/detail/weight_reader.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/utf8.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

inline constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

// Whether the frequencies of `rope` are those of `plain`, each divided by its divisor, to within
// what is lost when a converter computes them in f32.
inline bool has_divisors(const attention::Rope& rope, const attention::Rope& plain, Index head_dim,
                         std::span<const float> divisors) {
  const std::vector<double> scaled = attention::frequencies(rope, head_dim);
  const std::vector<double> whole = attention::frequencies(plain, head_dim);
  for (std::size_t pair = 0; pair < divisors.size(); ++pair) {
    const double wanted = whole[pair];
    const double given = scaled[pair] * static_cast<double>(divisors[pair]);
    if (!(std::abs(given - wanted) <= 1e-4 * wanted)) return false;
  }
  return true;
}

// The rule behind the divisors of a file that has them.
inline attention::Scaling scaling_of_divisors(const files::Gguf& file, const attention::Rope& plain,
                                              Index head_dim) {
  const files::TensorTable table = file.table();
  const std::vector<float> divisors =
      WeightReader(table).values(kRopeDivisors, {plain.dim(head_dim) / 2});
  if (std::ranges::all_of(divisors, [](float d) { return d == 1.0f; })) {
    return attention::Unscaled{};
  }
  const float factor = std::ranges::max(divisors);
  attention::Rope rope = plain;
  rope.scaling = attention::Llama3Scaling{.factor = static_cast<double>(factor)};
  const bool known =
      std::isfinite(factor) && factor > 1.0f && has_divisors(rope, plain, head_dim, divisors);
  expects<FormatError>(known, file.name(), ": tensor ", kRopeDivisors,
                       " does not follow from the constants of Llama 3.1 (1, 4, 8192) and a factor",
                       " of ", factor);
  return rope.scaling;
}

// A factor without a rule is linear, and a factor of 0 is none, as llama.cpp reads them.
inline attention::Scaling gguf_scaling(const GgufKeys& keys) {
  const std::string_view rule = keys.metadata().text_or(keys.key("rope.scaling.type"), "linear");
  expects<FormatError>(rule == "linear" || rule == "none", keys.place("rope.scaling.type"),
                       " is \"", files::printable(rule),
                       "\", which is not supported (none and linear are)");
  const char* key = keys.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const double factor = keys.metadata().number_or(keys.key(key), 0.0);
  if (rule == "none" || factor == 0.0 || factor == 1.0) return attention::Unscaled{};
  return attention::LinearScaling{checked_positive(factor, keys.place(key))};
}

// The rotation of heads of `head_dim`.
//
// Errors   FormatError naming file, and key or tensor
inline attention::Rope read_gguf_rope(const files::Gguf& file, const GgufKeys& keys,
                                      attention::Pairing pairing, Index head_dim) {
  attention::Rope rope = {.rotary_dim = keys.extent_or("rope.dimension_count", head_dim),
                          .theta = keys.positive_or("rope.freq_base", 10000.0),
                          .pairing = pairing,
                          .scaling = gguf_scaling(keys)};
  expects<FormatError>(rope.rotary_dim % 2 == 0 && rope.rotary_dim <= head_dim,
                       keys.place("rope.dimension_count"), " is ", rope.rotary_dim,
                       ", not an even number up to the ", head_dim, " of a head");
  if (file.tensors().contains(kRopeDivisors)) {
    expects<FormatError>(rope.scaling == attention::Scaling(attention::Unscaled{}),
                         keys.place("rope.scaling.type"), " is given beside the tensor ",
                         kRopeDivisors);
    rope.scaling = scaling_of_divisors(file, rope, head_dim);
  }
  return rope;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
