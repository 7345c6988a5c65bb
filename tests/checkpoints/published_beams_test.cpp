// tests/checkpoints/published_beams_test.cpp - beam search beside Hugging Face transformers 5.24,
// on a published random GPT-2; skipped where it is absent.
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/codec/plain.hpp>
#include <decant/decoding/beam.hpp>
#include <decant/kv/paged.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using decoding::EarlyStopping;

struct PublishedAnswer {
  std::vector<Token> tokens;
  double score;
};
struct PublishedSearch {
  std::vector<Token> prompt;
  Index beams;
  double length_penalty;
  EarlyStopping early_stopping;
  std::vector<Token> end_tokens;
  Index max_new_tokens;
  std::vector<PublishedAnswer> best;  // computed in double precision
};

// What transformers' generate() returns, end tokens taken off.
std::vector<PublishedSearch> published_searches() {
  return {
      {{0, 0, 0, 52},
       3,
       1.0,
       EarlyStopping::no,
       {98},
       8,
       {{{204, 204, 204, 204, 204, 204, 204, 204}, -6.338919},
        {{204, 204, 204, 204, 204, 204, 204, 458}, -6.362479},
        {{204, 204, 204, 204, 204, 204, 204, 810}, -6.369240}}},
      {{0, 0, 0, 52},
       4,
       0.5,
       EarlyStopping::yes,
       {204, 98},
       10,
       {{{204}, -6.439546}, {{460, 460, 204}, -11.219434}, {{52, 52, 204}, -11.250292}}},
      {{0, 0, 0, 52},
       4,
       2.0,
       EarlyStopping::never,
       {114, 98},
       12,
       {{{204, 204, 204, 204, 204, 204, 204, 204, 204, 204, 204, 204}, -0.528034},
        {{204, 204, 204, 204, 204, 204, 204, 204, 204, 204, 204, 319}, -0.529753},
        {{204, 204, 204, 204, 204, 204, 204, 204, 204, 204, 204, 833}, -0.529924}}},
      {{0, 0, 0, 52},
       2,
       -1.0,
       EarlyStopping::no,
       {731, 204},
       9,
       {{{204}, -6.439546}, {{52, 52, 204}, -58.458229}}},
      {{0, 0, 0, 52},
       5,
       0.0,
       EarlyStopping::no,
       {114, 204, 98},
       10,
       {{{204}, -6.439546}, {{460, 460, 204}, -19.432629}, {{52, 52, 204}, -19.486076}}},
      {{0, 0, 195, 731},
       3,
       1.0,
       EarlyStopping::no,
       {98},
       8,
       {{{114, 114, 394, 394, 394, 394, 394, 394}, -6.421227},
        {{948, 832, 832, 832, 832, 832, 832, 832}, -6.435595},
        {{114, 114, 114, 114, 114, 114, 114, 114}, -6.441048}}},
      {{0, 0, 195, 731},
       4,
       0.5,
       EarlyStopping::yes,
       {204, 98},
       10,
       {{{948, 832, 832, 50, 50, 50, 50, 50, 50, 50}, -20.279308},
        {{114, 114, 394, 394, 394, 394, 394, 394, 394, 394}, -20.289509},
        {{114, 114, 394, 394, 394, 394, 394, 394, 487, 487}, -20.320141}}},
      {{0, 0, 195, 731},
       4,
       2.0,
       EarlyStopping::never,
       {114, 98},
       12,
       {{{579, 579, 394, 394, 394, 394, 394, 394, 394, 394, 394, 394}, -0.533901},
        {{948, 832, 832, 832, 50, 50, 50, 50, 50, 50, 50, 50}, -0.534585},
        {{579, 579, 394, 394, 394, 394, 394, 394, 394, 394, 394, 833}, -0.534952}}},
      {{0, 0, 195, 731},
       2,
       -1.0,
       EarlyStopping::no,
       {731, 204},
       9,
       {{{731}, -6.576803}, {{114, 114, 394, 394, 394, 394, 394, 394, 394}, -519.903809}}},
      {{0, 0, 195, 731},
       5,
       0.0,
       EarlyStopping::no,
       {114, 204, 98},
       10,
       {{{114}, -6.605106},
        {{0, 394, 394, 394, 394, 394, 394, 394, 394, 394}, -63.975506},
        {{0, 0, 394, 394, 394, 394, 394, 394, 394, 394}, -64.078163}}},
  };
}

TEST(PublishedBeams, AreFoundWithTheirScores) {
  const std::filesystem::path folder =
      std::filesystem::path(DECANT_SHARED_DATA) / "tiny-random-gpt2";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared data is absent: " << folder;
  checkpoints::Checkpoint checkpoint = checkpoints::load_checkpoint(folder);
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  kv::PagePool<codec::F32> pool(decoder.config().geometry(), 64, 16);
  for (const PublishedSearch& search : published_searches()) {
    kv::Paged<codec::F32> store(pool);
    model::Workspace workspace(decoder.config(),
                               {.rows = 8, .logit_rows = search.beams, .sequences = search.beams});
    const auto answers = decoding::beam_search(decoder, store, workspace, search.prompt,
                                               {.beams = search.beams,
                                                .answers = search.beams,
                                                .max_new_tokens = search.max_new_tokens,
                                                .length_penalty = search.length_penalty,
                                                .early_stopping = search.early_stopping,
                                                .end_tokens = search.end_tokens});
    ASSERT_GE(answers.size(), search.best.size());
    for (std::size_t at = 0; at < search.best.size(); ++at) {
      std::vector<Token> expected = search.best[at].tokens;
      if (std::ranges::count(search.end_tokens, expected.back()) > 0) expected.pop_back();
      EXPECT_EQ(answers[at].tokens, expected) << search.beams << " beams, answer " << at;
      EXPECT_NEAR(answers[at].score, search.best[at].score,
                  1e-4 + 2e-6 * std::abs(search.best[at].score));
    }
  }
}

}  // namespace
