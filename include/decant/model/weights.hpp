// decant/model/weights.hpp - the parameters of a decoder, packed for the products that read them.
//
// Matrices that share their input are stacked into one (query, key and value rows; gate and up
// rows), so that a layer is four products. An empty vector is a bias or norm that the model does
// not have.
//
// Tested by   tests/model/weights_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/config.hpp>

#include <vector>

namespace decant::inline DECANT_ABI::model {

// y = matrix * x + bias
//
// Shape    matrix [outputs, inputs]; bias [outputs] or empty
struct Linear {
  kernels::Matrix matrix;
  std::vector<float> bias;
};

// Shape    weight [n]; bias [n] or empty (RMS norms have none)
struct NormWeights {
  std::vector<float> weight;
  std::vector<float> bias;
};

struct LayerWeights {
  NormWeights attention_norm;
  Linear qkv;              // [(heads + kv_heads) * key_dim + kv_heads * value_dim, hidden_size]
  NormWeights query_norm;  // [key_dim] each, empty unless queries and keys are normed by head
  NormWeights key_norm;
  Linear attention_output;  // [hidden_size, heads * value_dim]
  NormWeights feed_forward_norm;
  Linear up;    // [2 * intermediate_size, hidden_size], gate rows first, where gated; else
                // [intermediate_size, hidden_size]
  Linear down;  // [hidden_size, intermediate_size]
};

struct Weights {
  kernels::Matrix embedding;     // [vocabulary, hidden_size]
  std::vector<float> positions;  // [max_positions, hidden_size], empty unless learned
  std::vector<LayerWeights> layers;
  NormWeights output_norm;
  Linear output;  // [vocabulary, hidden_size]; an empty matrix means the embedding is used (tied)
};

// Bytes of all matrices. A decoded token reads each once, but only one row of an embedding that is
// not tied.
Index matrix_bytes(const Weights& weights) noexcept;

// Refuses weights of other shapes than the configuration asks for; what stands outside the layers
// is called layer -1.
//
// Errors   std::invalid_argument naming the weight and both shapes
void check(const Config& config, const Weights& weights);

}  // namespace decant::inline DECANT_ABI::model

#if !defined(DECANT_COMPILED)
#include <decant/model/detail/weights.hpp>
#endif
