// tests/fuzz/packed_target.hpp - one packed checkpoint of unknown worth, opened and read to the
// end.
#pragma once

#include <decant/checkpoints/detail/packed_checkpoint.hpp>
#include <decant/core/buffer.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/weights.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace decant::fuzz {

// All rows of a matrix, so that what lies beyond its file is noticed.
inline void read_all(const kernels::Matrix& matrix) {
  std::vector<float> row(static_cast<std::size_t>(matrix.columns()));
  for (Index at = 0; at < matrix.rows(); ++at) matrix.row(at, row);
}
inline void read_all(const std::vector<float>&) {}

// Whether `bytes` are a packed checkpoint, but for their checksum: what is mutated would not be
// looked at otherwise. Anything but a model or a FormatError is a fault of the reader.
inline bool accepts_packed(std::span<const std::byte> bytes) {
  auto memory = std::make_shared<Buffer<std::byte>>(std::ssize(bytes));  // aligned, as a mapping is
  if (!bytes.empty()) std::memcpy(memory->data(), bytes.data(), bytes.size());
  try {
    const auto file = files::Safetensors::parse({memory->data(), bytes.size()}, "fuzz.packed");
    const checkpoints::Checkpoint checkpoint =
        checkpoints::detail::read_packed(file, std::move(memory), {});
    model::check(checkpoint.config);
    model::check(checkpoint.config, checkpoint.weights);
    checkpoints::detail::for_each_parameter(
        checkpoint.weights, [](const std::string&, const auto& part) { read_all(part); });
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

}  // namespace decant::fuzz
