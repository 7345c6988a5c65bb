// tests/model/adapter_test.cpp - logits under an adapter against the reference with merged weights,
// identities, and what is refused.
#include <decant/model/adapter.hpp>

#include "law/models.hpp"
#include "model/run.hpp"
#include "reference/adapter.hpp"
#include "reference/decoder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace decant;
using model::Adapter;
using model::Projection;

// The largest difference from the reference, whose weights are merged with the changes.
double error(const trial::Family& family, const reference::Changes& changes,
             codec::Type type = codec::Type::f32, std::size_t chunk = 70) {
  const reference::Model random = reference::random_model(family.config, 5, family.parts);
  const model::Decoder decoder(family.config, reference::to_weights(random));
  const Adapter adapter = reference::to_adapter(family.config, changes, type);
  const auto tokens = trial::random_tokens(family.config, 70, 2);
  const reference::Matrix expected =
      reference::Decoder(reference::merged(random, changes)).logits(tokens);
  const trial::Rows rows = trial::chunked(decoder, tokens, chunk, &adapter);
  double worst = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    worst = std::max(worst,
                     reference::max_difference(rows[row], expected.row(static_cast<Index>(row))));
  }
  return worst;
}

class AdaptedFamilies : public testing::TestWithParam<trial::Family> {};

TEST_P(AdaptedFamilies, GiveTheLogitsOfMergedWeights) {
  const model::Config& config = GetParam().config;
  const reference::Changes changes =
      reference::random_changes(config, 3, 4, reference::all_projections(config));
  EXPECT_LE(error(GetParam(), changes), 5e-5);
  EXPECT_LE(error(GetParam(), changes, codec::Type::f32, 1), 5e-5);
}

// Each projection alone: a change in the wrong place, or none, would show.
TEST_P(AdaptedFamilies, ChangeEveryProjectionInItsPlace) {
  const model::Config& config = GetParam().config;
  std::vector<Projection> projections = reference::all_projections(config);
  projections.push_back(Projection::qkv);
  for (Projection projection : projections) {
    SCOPED_TRACE(static_cast<int>(projection));
    const reference::Changes changes = reference::random_changes(config, 4, 17, {&projection, 1});
    EXPECT_LE(error(GetParam(), changes), 5e-5);
    const Adapter none(config, {});
    const Adapter some = reference::to_adapter(config, changes);
    const model::Decoder decoder = trial::decoder_of(GetParam());
    const auto tokens = trial::random_tokens(config, 5, 2);
    EXPECT_GT(trial::worst_difference(trial::chunked(decoder, tokens, 5, &some),
                                      trial::chunked(decoder, tokens, 5, &none)),
              0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdaptedFamilies,
                         testing::Values(trial::llama(), trial::windowed(), trial::normed_heads(),
                                         trial::gpt2(), trial::streaming(), trial::wide_heads()),
                         [](const auto& one) { return one.param.name; });

TEST(Adapter, OfTwoBytesThatLoseNothingChangesNothing) {
  const trial::Family family = trial::llama();
  const auto changes =
      reference::random_changes(family.config, 3, 7, reference::all_projections(family.config));
  for (codec::Type type : {codec::Type::bf16, codec::Type::f16}) {
    EXPECT_LE(error(family, changes, type), 5e-5);
  }
}

TEST(Adapter, WithoutChangesGivesTheBitsOfTheModel) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const auto tokens = trial::random_tokens(decoder.config(), 40, 2);
  const Adapter adapter(decoder.config(), {});
  EXPECT_TRUE(trial::same_rows(trial::chunked(decoder, tokens, 40),
                               trial::chunked(decoder, tokens, 40, &adapter)));
}

TEST(Adapter, HasAnIdOfItsContents) {
  const model::Config config = trial::llama().config;
  const auto projections = {Projection::query, Projection::down};
  const auto changes = reference::random_changes(config, 3, 4, projections);
  const auto id = [&](codec::Type type, const std::function<void(reference::Changes&)>& edit) {
    reference::Changes edited = changes;
    edit(edited);
    return reference::to_adapter(config, edited, type).id();
  };
  const std::uint64_t plain = id(codec::Type::f32, [](auto&) {});
  EXPECT_NE(plain, 0u);
  EXPECT_EQ(plain, id(codec::Type::bf16, [](auto&) {}));
  const std::vector<std::function<void(reference::Changes&)>> edits = {
      [](auto& list) { list[1].scale = 0.25; },
      [](auto& list) { list[0].a.cells[7] += 1; },
      [](auto& list) { list.back().b.cells.back() += 1; },
      [](auto& list) { std::swap(list[0].a.cells[0], list[0].a.cells[1]); },
      [](auto& list) { std::swap(list[0].layer, list[2].layer); },
      [](auto& list) { list.pop_back(); },
  };
  std::vector<std::uint64_t> ids = {plain};
  for (const auto& edit : edits) ids.push_back(id(codec::Type::f32, edit));
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

// The sentence of what an invalid change is refused with.
std::string refusal(const model::Config& config, const model::LowRankChange& change) {
  try {
    const Adapter adapter(config, {&change, 1});
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Adapter, RefusesWhatDoesNotFitTheModel) {
  const model::Config config = trial::gpt2().config;
  const std::vector<float> zeros(100'000);
  const auto matrix = [&](Index rows, Index columns) {
    return kernels::row_major(zeros.data(), codec::Type::f32, rows, columns);
  };
  const auto refused = [&](Index layer, Projection projection, Index outputs, Index rank,
                           Index inputs, float scale = 1.0f) {
    return refusal(config, {layer, projection, matrix(rank, inputs), matrix(outputs, rank), scale});
  };
  EXPECT_EQ(refused(1, Projection::query, 60, 2, 36), "accepted");
  EXPECT_EQ(refused(2, Projection::query, 60, 2, 36), "model::Adapter: layer 2 of 2");
  EXPECT_EQ(refused(-1, Projection::query, 60, 2, 36), "model::Adapter: layer -1 of 2");
  EXPECT_EQ(refused(0, Projection::gate, 50, 2, 36),
            "model::Adapter: the model has no gate in layer 0");
  EXPECT_EQ(refused(0, Projection::key, 60, 2, 36),
            "model::Adapter: the key of layer 0 is changed by [60, 2] times [2, 36], not by [30, "
            "rank] times [rank, 36]");
  EXPECT_EQ(refused(0, Projection::down, 36, 0, 50),
            "model::Adapter: the down of layer 0 has rank 0, not in [1, 72]");
  EXPECT_EQ(refused(0, Projection::down, 36, 73, 50),
            "model::Adapter: the down of layer 0 has rank 73, not in [1, 72]");
  EXPECT_EQ(refused(1, Projection::up, 50, 2, 36, trial::kInfinity),
            "model::Adapter: the up of layer 1 has the scale inf");
  EXPECT_NE(refusal(config, {0, Projection::query, matrix(2, 36), matrix(60, 3)}), "accepted");
}

TEST(Adapter, OfAnotherConfigurationIsRefusedByAStep) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const Adapter other(trial::gpt2().config, {});
  const auto tokens = trial::random_tokens(decoder.config(), 4, 2);
  EXPECT_THROW(trial::chunked(decoder, tokens, 4, &other), std::invalid_argument);
}

}  // namespace
