// decant/io/weight_reader.hpp - tensors asked for by name and shape, until none is left over.
//
// A loader states what it needs. What is not there, or has another shape or format, is refused;
// at the end so is what nobody asked for, because an ignored tensor is a model that computes
// something else.
//
// Depends on  codec/plain.hpp, io/{hf_config,tensor_files,utf8}.hpp, model/weights.hpp
// Tested by   tests/io/checkpoint_test.cpp
#pragma once

#include <decant/codec/plain.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/io/hf_config.hpp>
#include <decant/io/tensor_files.hpp>
#include <decant/io/utf8.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/weights.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline v0::io {

// Borrows the files. Views that it gives point into them.
//
// Errors   FormatError naming file and tensor, from every member
// Cost     vectors are copied and widened; matrices are views
class WeightReader {
 public:
  explicit WeightReader(const TensorFiles& files) : files_(&files) {}

  bool has(std::string_view name) const { return files_->find(name) != nullptr; }
  // `prefix` where a name of a layer carries it, nothing where none does.
  std::string prefix(std::string_view prefix, std::string_view layers) const {
    const std::string prefixed = sentence(prefix, layers);
    const bool carried = std::ranges::any_of(
        files_->entries(), [&](const auto& entry) { return entry.first.starts_with(prefixed); });
    return std::string(carried ? prefix : "");
  }

  // Shape    [outputs, inputs]
  kernels::MatrixView matrix(std::string_view name, Index outputs, Index inputs) {
    const Tensor& tensor = take(name, {outputs, inputs});
    return kernels::row_major(tensor.data.data(), *tensor.dtype->codec, outputs, inputs);
  }
  // The same, stored as [inputs, outputs].
  kernels::MatrixView transposed(std::string_view name, Index outputs, Index inputs) {
    const Tensor& tensor = take(name, {inputs, outputs});
    return {tensor.data.data(), *tensor.dtype->codec, outputs, inputs, 1, outputs};
  }
  // Any tensor as numbers, row by row.
  std::vector<float> numbers(std::string_view name, std::initializer_list<Index> shape) {
    const Tensor& tensor = take(name, shape);
    return codec::visit(*tensor.dtype->codec,
                        [&](auto codec) { return widened<decltype(codec)>(tensor.data); });
  }
  // Whether two tensors are the same bytes in the same format.
  bool same(std::string_view one, std::string_view other) const {
    const Tensor& a = *files_->find(one)->tensor;
    const Tensor& b = *files_->find(other)->tensor;
    return a.dtype == b.dtype && std::ranges::equal(a.data, b.data);
  }

  // Refuses a tensor that was neither taken nor is `ignored`.
  void finish(const std::function<bool(std::string_view)>& ignored) const {
    for (const auto& [name, entry] : files_->entries()) {
      expects<FormatError>(taken_.contains(name) || ignored(name), entry.file,
                           ": unexpected tensor ", printable(name));
    }
  }

 private:
  const Tensor& take(std::string_view name, std::initializer_list<Index> shape) {
    const TensorFiles::Entry* entry = files_->find(name);
    expects<FormatError>(entry != nullptr, files_->name(), ": tensor ", name, " is absent");
    const Tensor& tensor = *entry->tensor;
    expects<FormatError>(std::ranges::equal(tensor.shape, shape), entry->file, ": tensor ", name,
                         " has shape ", shape_text(tensor.shape), ", not ",
                         shape_text({shape.begin(), shape.size()}));
    expects<FormatError>(tensor.dtype->codec.has_value(), entry->file, ": tensor ", name, " is ",
                         tensor.dtype->name, ", which weights cannot be (F32, BF16, F16)");
    taken_.emplace(name);
    return tensor;
  }

  template <codec::Codec C>
  static std::vector<float> widened(std::span<const std::byte> data) {
    using Cell = typename C::Cell;
    std::vector<float> result(data.size() / sizeof(Cell));
    for (std::size_t i = 0; i < result.size(); ++i) {
      Cell cell;
      std::memcpy(&cell, data.data() + i * sizeof(Cell), sizeof(Cell));  // may be unaligned
      result[i] = C::load(cell);
    }
    return result;
  }

  const TensorFiles* files_;
  std::set<std::string, std::less<>> taken_;
};

namespace detail {

// Matrices of one input, one below the other; in f32 where their formats differ.
inline kernels::Matrix stacked(std::initializer_list<kernels::MatrixView> views) {
  const codec::Type type = views.begin()->type;
  const bool uniform =
      std::ranges::all_of(views, [&](const auto& view) { return view.type == type; });
  return kernels::Matrix({views.begin(), views.size()}, uniform ? type : codec::Type::f32);
}

inline model::NormWeights rms_norm(WeightReader& reader, std::string_view name, Index width,
                                   bool plus_one) {
  model::NormWeights norm{.weight = reader.numbers(name, {width}), .bias = {}};
  if (plus_one) {
    for (float& weight : norm.weight) weight += 1.0f;
  }
  return norm;
}

// The embedding called `embedding`, and the output matrix, which may be the same.
//
//   tied    lm_head.weight   output
//   yes     absent           the embedding
//   yes     present          the embedding; a remark where the bytes differ
//   yes     alone            lm_head.weight, which then is the embedding too
//   no      present          lm_head.weight
//   no      absent           refused
inline void read_vocabulary(WeightReader& reader, const std::string& embedding,
                            const HfConfig& config, model::Weights& weights,
                            std::vector<std::string>& remarks) {
  const Index rows = config.model.vocabulary;
  const Index columns = config.model.width;
  const std::string head = "lm_head.weight";
  const bool alone = config.tied && reader.has(head) && !reader.has(embedding);
  weights.embedding = kernels::Matrix(reader.matrix(alone ? head : embedding, rows, columns));
  if (!config.tied) {
    weights.output.matrix = kernels::Matrix(reader.matrix(head, rows, columns));
  } else if (!alone && reader.has(head)) {
    static_cast<void>(reader.matrix(head, rows, columns));
    if (!reader.same(head, embedding)) {
      remarks.push_back(sentence(head, " differs from ", embedding,
                                 ", to which the configuration ties it, and is not used"));
    }
  }
}

}  // namespace detail

}  // namespace decant::inline v0::io
