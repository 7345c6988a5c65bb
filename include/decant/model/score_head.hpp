// decant/model/score_head.hpp - the head of a classification or reward model, which reads the
// hidden states of a text's last token.
//
// Source      Hugging Face transformers, *ForSequenceClassification
// Tested by   tests/model/embedding_test.cpp, tests/checkpoints/embedding_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::model {

// Labels of a classification model, or the one score of a reward model.
//
// Shape    weight is [labels, hidden_size]
struct ScoreHead {
  Index labels = 0;
  std::vector<float> weight = {};
};

// The score of each label, before any softmax, of a text whose vector is not normalised.
//
// Shape    hidden is [hidden_size]; the result [labels]
// Errors   std::invalid_argument on another length
inline std::vector<float> scores(const ScoreHead& head, std::span<const float> hidden) {
  expects(head.labels >= 0 &&
              head.weight.size() == static_cast<std::size_t>(head.labels) * hidden.size(),
          "model::scores: a head of ", head.weight.size(), " weights for ", head.labels,
          " labels and ", hidden.size(), " hidden states");
  std::vector<float> result;
  for (std::size_t at = 0; at < head.weight.size(); at += hidden.size()) {
    double sum = 0;
    for (std::size_t n = 0; n < hidden.size(); ++n) {
      sum += static_cast<double>(head.weight[at + n]) * static_cast<double>(hidden[n]);
    }
    result.push_back(static_cast<float>(sum));
  }
  return result;
}

}  // namespace decant::inline DECANT_ABI::model
