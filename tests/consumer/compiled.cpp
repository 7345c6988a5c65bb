// A program against decant::compiled: steps over a store that the library has, and over one whose
// instance this program compiles itself (own_store.cpp). No header here brings Eigen.
#include <decant/decant.hpp>

#include <cmath>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#ifdef EIGEN_CORE_H
#error "the interface is light no more"
#endif

using namespace decant;

// A model of one layer whose weights are all `value`.
model::Weights weights_of(const model::Config& config, float value) {
  const auto matrix = [&](Index rows, Index columns) {
    const std::vector<float> cells(static_cast<std::size_t>(rows * columns), value);
    return kernels::Matrix(kernels::row_major(cells.data(), codec::Type::f32, rows, columns));
  };
  const auto norm = [&] {
    return model::NormWeights{std::vector<float>(static_cast<std::size_t>(config.hidden_size), 1)};
  };
  model::Weights weights;
  weights.embedding = matrix(config.vocabulary, config.hidden_size);
  weights.output_norm = norm();
  weights.layers.resize(1);
  model::LayerWeights& layer = weights.layers[0];
  layer.attention_norm = norm();
  layer.qkv.matrix = matrix(config.qkv_size(), config.hidden_size);
  layer.attention_output.matrix = matrix(config.hidden_size, config.heads * config.value_dim);
  layer.feed_forward_norm = norm();
  layer.up.matrix = matrix(config.up_size(), config.hidden_size);
  layer.down.matrix = matrix(config.hidden_size, config.intermediate_size);
  return weights;
}

template <class Store>
float logit_after_a_step(const model::Decoder& decoder) {
  model::Workspace workspace(decoder.config(), {.rows = 4});
  Store store(decoder.config().geometry(), 16);
  model::Batch<Store> batch;
  batch.add(store, std::vector<Token>{1, 2, 3});
  decoder.step(batch, workspace);
  return workspace.logits(0)[0];
}

int main() {
  const model::Config config{.vocabulary = 8,
                             .layers = 1,
                             .hidden_size = 16,
                             .heads = 1,
                             .kv_heads = 1,
                             .key_dim = 16,
                             .value_dim = 16,
                             .intermediate_size = 16,
                             .max_positions = 16};
  const model::Decoder decoder(config, weights_of(config, 0.125f));
  const float a = logit_after_a_step<kv::Contiguous<codec::BF16>>(decoder);
  const float b = logit_after_a_step<kv::Contiguous<codec::F16, codec::FP8E4M3>>(decoder);
  std::printf("%g %g\n", static_cast<double>(a), static_cast<double>(b));
  return std::isfinite(a) && a != 0 && std::abs(a - b) < 0.01f ? 0 : 1;
}
