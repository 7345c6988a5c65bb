// decant/decoding/prompt_log_probabilities.hpp - log-probabilities of the tokens of a given text:
// for perplexity, for ranking answers, and for the echo of a prompt.
//
// They are, bit for bit, those that the same tokens had when they were generated.
//
// Tested by   tests/decoding/prompt_log_probabilities_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/detail/steps.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/log_probabilities.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// The log-probabilities of all tokens but the first, which nothing predicts, and of the `top` most
// probable tokens in the place of each. The store is emptied first, and holds the text afterwards.
//
// Shape    the result is [tokens - 1]: element i is of tokens[i + 1]
// Errors   before anything changed: std::invalid_argument (no tokens, ids outside the vocabulary,
//          a negative count, a store, workspace or adapter made for another model, a text longer
//          than learned positions), CacheFull if the text is longer than the store. Later:
//          BadLogits, CacheFull if a pool lacks pages; the store then holds a beginning of the text
// Cost     a step for every min(limits.rows, limits.logit_rows, store.chunk()) tokens: since a
//          default workspace has one row of logits, it takes a step for each token; O(vocabulary)
//          for each token
// Threads  the store and the workspace belong to the call until it returns
template <kv::Store S>
std::vector<LogProbabilities> prompt_log_probabilities(
    const model::Decoder& decoder, S& store, model::Workspace& workspace,
    std::span<const Token> tokens, Index top = 0,
    std::shared_ptr<const model::Adapter> adapter = nullptr) {
  detail::Steps<S> steps{decoder, workspace};
  detail::check_run(steps, store, tokens, {.log_probabilities = top, .adapter = adapter},
                    "decoding::prompt_log_probabilities");
  const model::Limits& limits = workspace.limits();
  const Index most = std::min({limits.rows, limits.logit_rows, store.chunk()});
  store.rewind(0);
  std::vector<LogProbabilities> result;
  result.reserve(tokens.size() - 1);
  for (auto rest = tokens; !rest.empty();) {
    const auto rows = std::min(static_cast<std::size_t>(most), rest.size());
    steps.batch.clear();
    steps.batch.add(store, rest.first(rows), model::Logits::all, adapter.get());
    steps.run();
    for (std::size_t row = 0; row < std::min(rows, rest.size() - 1); ++row) {
      const std::span<const float> logits = workspace.logits(static_cast<Index>(row));
      result.push_back(log_probabilities(logits, rest[row + 1], top));
    }
    rest = rest.subspan(rows);
  }
  return result;
}

}  // namespace decant::inline DECANT_ABI::decoding
