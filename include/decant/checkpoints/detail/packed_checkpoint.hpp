// decant/checkpoints/detail/packed_checkpoint.hpp - a packed checkpoint is opened.
//
// Tested by   tests/checkpoints/packed_checkpoint_test.cpp, tests/fuzz/packed_target.hpp
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/checkpoints/detail/packed_config.hpp>
#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/config.hpp>
#include <decant/model/score_head.hpp>
#include <decant/model/weights.hpp>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

inline constexpr std::string_view kPackedKey = "decant.packed";
// Counts changes of the file, of the panels in it, and of what a configuration means.
inline constexpr std::string_view kPackedVersion = "1";
inline constexpr std::string_view kPackedConfig = "config";
inline constexpr std::string_view kPackedScore = "score.weight";

// f(name, matrix or vector) for all parameters of a model.
template <class Weights, class F>
void for_each_parameter(Weights& weights, F&& f) {
  const auto norm = [&](const std::string& name, auto& part) {
    f(name + ".weight", part.weight);
    f(name + ".bias", part.bias);
  };
  const auto linear = [&](const std::string& name, auto& part) {
    f(name + ".matrix", part.matrix);
    f(name + ".bias", part.bias);
  };
  f("embedding", weights.embedding);
  f("positions", weights.positions);
  Index at = 0;
  for (auto& layer : weights.layers) {
    const std::string name = sentence("layers.", at++, ".");
    norm(name + "attention_norm", layer.attention_norm);
    linear(name + "qkv", layer.qkv);
    norm(name + "query_norm", layer.query_norm);
    norm(name + "key_norm", layer.key_norm);
    linear(name + "attention_output", layer.attention_output);
    norm(name + "feed_forward_norm", layer.feed_forward_norm);
    linear(name + "up", layer.up);
    linear(name + "down", layer.down);
  }
  norm("output_norm", weights.output_norm);
  linear("output", weights.output);
}

// Gives the parameters of a packed file, until none is left over.
//
// Errors   FormatError naming file and tensor
class PackedReader {
 public:
  PackedReader(const files::Safetensors& file, std::shared_ptr<const void> owner,
               const LoadOptions& options)
      : file_(file), owner_(std::move(owner)), options_(options) {
    const auto version = file.metadata().find(kPackedKey);
    expects<FormatError>(version != file.metadata().end(), file.name(),
                         ": is no packed checkpoint");
    expects<FormatError>(version->second == kPackedVersion, file.name(), ": is packed in version ",
                         files::printable(version->second), ", not ", kPackedVersion,
                         ": pack it again");
  }

  Checkpoint without_weights() {
    const files::Tensor* tensor = take(kPackedConfig);
    expects<FormatError>(tensor != nullptr, file_.name(), ": has no ", kPackedConfig);
    return parse_packed_config(files::characters(tensor->data),
                               sentence(file_.name(), ": ", kPackedConfig));
  }

  void read(const std::string& name, std::vector<float>& values) {
    const files::Tensor* tensor = take(name);
    if (tensor == nullptr) return;
    expects<FormatError>(tensor->dtype->name == "F32", file_.name(), ": ", name, " is ",
                         tensor->dtype->name, ", not F32");
    values.resize(tensor->data.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  }

  void read(const std::string& name, kernels::Matrix& matrix) {
    const files::Tensor* tensor = take(name);
    if (tensor == nullptr) return;
    kernels::Panels panels = described(name);
    const auto size = std::ssize(tensor->data);
    expects<FormatError>(panels.bytes <= size && size - panels.bytes < kernels::kPanelAlignment,
                         file_.name(), ": ", name, " has ", size, " bytes, its panels ",
                         panels.bytes);
    expects<FormatError>(!options_.weights || *options_.weights == panels.type, file_.name(),
                         ": is packed in ", codec::name(panels.type), ", not in ",
                         codec::name(options_.weights.value_or(panels.type)), ": pack it again");
    panels.memory = {owner_, tensor->data.data()};
    matrix = kernels::Matrix(panels, options_.activations);
  }

  // Refuses a tensor that was not taken, but for what others read.
  void finish() const {
    for (const auto& [name, tensor] : file_.tensors()) {
      expects<FormatError>(
          taken_.contains(name) || name == files::kChecksum || name.starts_with("tokenizer"),
          file_.name(), ": unexpected tensor ", files::printable(name));
    }
  }

 private:
  const files::Tensor* take(std::string_view name) {
    const auto found = file_.tensors().find(name);
    if (found == file_.tensors().end()) return nullptr;
    taken_.emplace(name);
    return &found->second;
  }

  // Format, rows, columns and bytes, as the metadata say: "q8_0 3072 2048 6684672".
  kernels::Panels described(const std::string& name) const {
    const auto found = file_.metadata().find(name);
    expects<FormatError>(found != file_.metadata().end(), file_.name(), ": does not say what ",
                         name, " is");
    std::istringstream text(found->second);
    std::string type;
    kernels::Panels panels;
    text >> type >> panels.rows >> panels.columns >> panels.bytes;
    const std::optional<codec::Type> known = codec::parse(type);
    expects<FormatError>(!text.fail() && known.has_value(), file_.name(), ": ", name, " is \"",
                         files::printable(found->second),
                         "\", not a format, rows, columns and bytes");
    panels.type = *known;
    return panels;
  }

  const files::Safetensors& file_;
  std::shared_ptr<const void> owner_;
  LoadOptions options_;
  std::set<std::string, std::less<>> taken_;
};

// The checkpoint in a packed file, of which `owner` holds the bytes.
//
// Errors   FormatError naming file, and tensor or field
inline Checkpoint read_packed(const files::Safetensors& file, std::shared_ptr<const void> owner,
                              const LoadOptions& options) {
  PackedReader reader(file, std::move(owner), options);
  Checkpoint checkpoint = reader.without_weights();
  expects<FormatError>(checkpoint.config.layers <= std::ssize(file.tensors()), file.name(),
                       ": has fewer tensors than ", checkpoint.config.layers, " layers");
  checkpoint.weights.layers.resize(static_cast<std::size_t>(checkpoint.config.layers));
  try {
    for_each_parameter(checkpoint.weights, [&](const std::string& name, auto& parameter) {
      reader.read(name, parameter);
    });
    model::ScoreHead& score = checkpoint.score;
    reader.read(std::string(kPackedScore), score.weight);
    score.labels = std::ssize(score.weight) / checkpoint.config.hidden_size;
    expects<FormatError>(score.labels * checkpoint.config.hidden_size == std::ssize(score.weight),
                         file.name(), ": ", kPackedScore, " has ", score.weight.size(),
                         " elements for a hidden size of ", checkpoint.config.hidden_size);
    reader.finish();
    model::check(checkpoint.config, checkpoint.weights);
  } catch (const std::invalid_argument& error) {
    throw FormatError(sentence(file.name(), ": contradicts itself: ", error.what()));
  }
  return checkpoint;
}

inline Checkpoint load_packed(const std::filesystem::path& path, const LoadOptions& options) {
  const auto mapped = std::make_shared<const files::MappedFile>(path);
  const std::string name = files::printable_path(path);
  const files::Safetensors file = options.verify ? files::parse_sealed(mapped->bytes(), name)
                                                 : files::Safetensors::parse(mapped->bytes(), name);
  return read_packed(file, mapped, options);
}

inline model::Config read_packed_config(const std::filesystem::path& path) {
  const files::Safetensors file = files::Safetensors::open(path);
  return PackedReader(file, nullptr, {}).without_weights().config;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
