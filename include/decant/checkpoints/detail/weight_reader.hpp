// decant/checkpoints/detail/weight_reader.hpp - tensors asked for by name and shape, until none is
// left over.
//
// A loader states what it needs. A tensor that is absent, or has another shape or format, is
// refused; at the end so is a tensor that was not asked for: ignored, it would make a model that
// computes something else.
//
// Tested by   tests/checkpoints/checkpoint_test.cpp, tests/checkpoints/load_options_test.cpp
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/resources.hpp>
#include <decant/core/types.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/kernels/matrix_view.hpp>
#include <decant/model/weights.hpp>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

// Borrows the table. Views that it gives point into the files.
//
// Errors   FormatError naming file and tensor, from every member
// Cost     vectors are copied and widened; matrices are views until they are packed
class WeightReader {
 public:
  explicit WeightReader(const files::TensorTable& tensors, const LoadOptions& options = {},
                        const Resources& resources = {})
      : tensors_(&tensors), options_(options), resources_(resources) {}

  bool has(std::string_view name) const { return tensors_->find(name) != nullptr; }
  // `prefix` where a name of a layer carries it, nothing where none does.
  std::string prefix(std::string_view prefix, std::string_view layers) const {
    const std::string prefixed = sentence(prefix, layers);
    const bool carried = std::ranges::any_of(
        tensors_->entries(), [&](const auto& entry) { return entry.first.starts_with(prefixed); });
    return std::string(carried ? prefix : "");
  }

  // Shape    [outputs, inputs]
  kernels::MatrixView matrix(std::string_view name, Index outputs, Index inputs) {
    const files::Tensor& tensor = take(name, {outputs, inputs});
    return kernels::row_major(tensor.data.data(), *tensor.dtype->codec, outputs, inputs);
  }
  // The same, stored as [inputs, outputs].
  kernels::MatrixView transposed(std::string_view name, Index outputs, Index inputs) {
    const files::Tensor& tensor = take(name, {inputs, outputs});
    return {tensor.data.data(), *tensor.dtype->codec, outputs, inputs, 1, outputs};
  }
  // Any tensor as f32, row by row.
  std::vector<float> values(std::string_view name, std::initializer_list<Index> shape) {
    const files::Tensor& tensor = take(name, shape);
    Index count = 1;
    for (Index extent : shape) count *= extent;
    std::vector<float> result(static_cast<std::size_t>(count));
    const auto view = kernels::row_major(tensor.data.data(), *tensor.dtype->codec, 1, count);
    kernels::read_weights(view, 0, 0, result);
    return result;
  }
  // Matrices of one input, one below the other: in the format that the options ask for, else in
  // their own, in f32 where their own differ.
  kernels::Matrix packed(std::initializer_list<kernels::MatrixView> views) const {
    const codec::Type first = views.begin()->type;
    const bool uniform =
        std::ranges::all_of(views, [&](const auto& view) { return view.type == first; });
    const codec::Type own = uniform ? first : codec::Type::f32;
    return kernels::Matrix({views.begin(), views.size()}, options_.weights.value_or(own),
                           options_.activations, resources_);
  }
  // The first extent of a tensor that may have any, 0 if it is absent.
  Index rows(std::string_view name) const {
    const files::TensorTable::Entry* entry = tensors_->find(name);
    return entry == nullptr || entry->tensor->shape.empty() ? 0 : entry->tensor->shape.front();
  }
  // Whether two tensors are the same bytes in the same format.
  bool same(std::string_view one, std::string_view other) const {
    const files::Tensor& a = *tensors_->find(one)->tensor;
    const files::Tensor& b = *tensors_->find(other)->tensor;
    return a.dtype == b.dtype && std::ranges::equal(a.data, b.data);
  }

  // Refuses a tensor that was neither taken nor is `ignored`.
  void finish(const std::function<bool(std::string_view)>& ignored) const {
    for (const auto& [name, entry] : tensors_->entries()) {
      expects<FormatError>(taken_.contains(name) || ignored(name), entry.file,
                           ": unexpected tensor ", files::printable(name));
    }
  }

 private:
  const files::Tensor& take(std::string_view name, std::initializer_list<Index> shape) {
    const files::TensorTable::Entry* entry = tensors_->find(name);
    expects<FormatError>(entry != nullptr, tensors_->name(), ": tensor ", name, " is absent");
    const files::Tensor& tensor = *entry->tensor;
    expects<FormatError>(std::ranges::equal(tensor.shape, shape), entry->file, ": tensor ", name,
                         " has shape ", files::shape_text(tensor.shape), ", not ",
                         files::shape_text({shape.begin(), shape.size()}));
    expects<FormatError>(tensor.dtype->codec.has_value(), entry->file, ": tensor ", name, " is ",
                         tensor.dtype->name,
                         ", which weights cannot be (F32, BF16, F16, Q8_0, Q4_0)");
    taken_.emplace(name);
    return tensor;
  }

  const files::TensorTable* tensors_;
  LoadOptions options_;
  Resources resources_;
  std::set<std::string, std::less<>> taken_;
};

// The embedding called `embedding`, and the output matrix `head`, which may be the same.
//
//   tied    head      output
//   yes     absent    the embedding
//   yes     present   the embedding; a warning where the bytes differ
//   yes     alone     the head, which then is the embedding too
//   no      present   the head
//   no      absent    refused
inline void read_vocabulary(WeightReader& reader, const std::string& embedding,
                            const std::string& head, const CheckpointConfig& config,
                            model::Weights& weights, std::vector<std::string>& warnings) {
  const Index rows = config.model.vocabulary;
  const Index columns = config.model.hidden_size;
  // Models that embed or classify texts have no output matrix; logits then are the embedding's.
  const bool headless = !config.has_output && !reader.has(head);
  if (headless && !config.tied) {
    warnings.push_back(sentence(head, " is absent: the model gives hidden states, and its logits ",
                                "mean nothing"));
  }
  const bool alone = config.tied && reader.has(head) && !reader.has(embedding);
  weights.embedding = reader.packed({reader.matrix(alone ? head : embedding, rows, columns)});
  if (!config.tied && !headless) {
    weights.output.matrix = reader.packed({reader.matrix(head, rows, columns)});
  } else if (!alone && reader.has(head)) {
    static_cast<void>(reader.matrix(head, rows, columns));
    if (!reader.same(head, embedding)) {
      warnings.push_back(sentence(head, " differs from ", embedding,
                                  ", to which the configuration ties it, and is not used"));
    }
  }
}

// The head of a classification or reward model, if there is one.
inline model::ScoreHead read_score_head(WeightReader& reader, const model::Config& config) {
  constexpr std::string_view kName = "score.weight";
  const Index labels = reader.rows(kName);
  if (labels == 0) return {};
  return {.labels = labels, .weight = reader.values(kName, {labels, config.hidden_size})};
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
