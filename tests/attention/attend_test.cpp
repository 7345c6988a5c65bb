// tests/attention/attend_test.cpp - attention against the reference: shapes, masks, scores and
// stores.
//
// Every slot that holds no row is NaN (attention/run.hpp), so a key that should not be seen shows.
#include <decant/attention/attend.hpp>

#include "attention/run.hpp"
#include "kv/stores.hpp"
#include "law/bits.hpp"
#include "law/executors.hpp"
#include "reference/attention.hpp"

#include <decant/codec/scaled.hpp>
#include <decant/core/thread_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using attention::Bidirectional;
using attention::Causal;
using reference::Matrix;
using trial::noisy_rows;

// Rows as a store rounds them.
template <kv::Store S>
void read_back(const S& store, Matrix& keys, Matrix& values) {
  const kv::Geometry& geometry = store.geometry();
  std::vector<float> key(static_cast<std::size_t>(geometry.key_dim));
  std::vector<float> value(static_cast<std::size_t>(geometry.value_dim));
  for (Index row = 0; row < keys.rows; ++row) {
    for (Index head = 0; head < geometry.heads; ++head) {
      store.get(0, head, row, key, value);
      std::ranges::copy(key, keys.row(row).begin() + head * geometry.key_dim);
      std::ranges::copy(value, values.row(row).begin() + head * geometry.value_dim);
    }
  }
}

struct Shape {
  Index heads = 4;
  Index kv_heads = 2;
  Index key_dim = 16;
  Index value_dim = 16;
};

// Keys [0, past + rows), of which the last `rows` have queries.
template <codec::Codec K, codec::Codec V = K>
struct Case {
  Case(const Shape& how, Index past_keys, Index row_count)
      : shape(how),
        past(past_keys),
        rows(row_count),
        queries(noisy_rows(rows, shape.heads * shape.key_dim, 1)),
        keys(noisy_rows(past + rows, shape.kv_heads * shape.key_dim, 2)),
        values(noisy_rows(past + rows, shape.kv_heads * shape.value_dim, 3)),
        store(trial::store_of<K, V>(shape.kv_heads, keys, values, past + rows + 35)) {
    read_back(store, keys, values);
  }

  reference::Attention reference() const {
    return {.heads = shape.heads,
            .kv_heads = shape.kv_heads,
            .scale = scale,
            .softcap = 0,
            .causal = true,
            .past = past,
            .window = 0,
            .bias = {}};
  }

  // Scores of up to `score` are off by the roundings of a dot product, and so is the exponent of
  // every weight; values in [-1, 1] add one rounding a key, and outputs another few. Integer
  // keys meet a quantised query, whose elements are off by half a step of 1 / 32767 of the largest.
  double bound(double score = 0) const {
    const double largest = score + scale * static_cast<double>(shape.key_dim);
    const double step = codec::IntegerCodec<K> ? 1.0 / 32767 : 0.0;
    const double dot =
        largest * (static_cast<double>(shape.key_dim + 4) * trial::kRounding + step / 2);
    return 2 * dot + 4e-7 + static_cast<double>(past + rows) * trial::kRounding;
  }

  template <attention::Mask M, attention::Score F = attention::Plain>
  void expect_reference(const reference::Attention& how, const M& mask, const F& transform = {},
                        double score = 0) const {
    const trial::Attended actual =
        trial::attend(store, past, queries, shape.heads, scale, mask, transform);
    const reference::Attended exact = reference::attend(how, queries, keys, values);
    EXPECT_LE(reference::max_difference(actual.output, exact.output.cells), bound(score));
    for (std::size_t n = 0; n < actual.log_sum_exp.size(); ++n) {
      const double expected = exact.log_sum_exp.cells[n];
      if (std::isinf(expected)) {
        EXPECT_EQ(actual.log_sum_exp[n], -trial::kInfinity);
      } else {
        EXPECT_NEAR(actual.log_sum_exp[n], expected, bound(score) + 1e-6);
      }
    }
  }
  void expect_causal_reference() const { expect_reference(reference(), Causal{}); }

  Shape shape;
  Index past;
  Index rows;
  double scale = 0.3;
  Matrix queries;
  Matrix keys;
  Matrix values;
  kv::Contiguous<K, V> store;
};

template <class C>
class AttendReference : public testing::Test {};
using AllCodecs = testing::Types<codec::F32, codec::BF16, codec::F16, codec::Int8, codec::Int4,
                                 codec::FP8E4M3, codec::FP8E5M2>;
TYPED_TEST_SUITE(AttendReference, AllCodecs);

TYPED_TEST(AttendReference, MatchesTheReferenceForEveryGroupSize) {
  for (Index group : {1, 2, 3, 5, 6, 7, 8, 9, 32, 64, 71}) {
    for (Index kv_heads : {1, 2}) {
      SCOPED_TRACE(testing::Message() << group << " query heads to each of " << kv_heads);
      const Shape shape = {.heads = group * kv_heads, .kv_heads = kv_heads, .key_dim = 8};
      Case<TypeParam>(shape, 66, 1).expect_causal_reference();
      Case<TypeParam>(shape, 30, 5).expect_causal_reference();
    }
  }
}

TYPED_TEST(AttendReference, MatchesTheReferenceForEverySizeOfHead) {
  for (Index key_dim : {1, 2, 3, 7, 16, 17, 33, 64, 65}) {
    for (Index value_dim : {1, 5, 15, 16, 17, 33, 64, 65, 81}) {
      SCOPED_TRACE(testing::Message() << "keys of " << key_dim << ", values of " << value_dim);
      Case<TypeParam>({.key_dim = key_dim, .value_dim = value_dim}, 20, 4)
          .expect_causal_reference();
    }
  }
}

TYPED_TEST(AttendReference, MatchesTheReferenceAroundPanelsTilesAndSegments) {
  for (Index keys : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1023, 1024, 1025, 2049}) {
    for (Index rows : {1, 2, 6, 7, 33, 65}) {
      if (rows > keys) continue;
      SCOPED_TRACE(testing::Message() << rows << " rows of " << keys << " keys");
      Case<TypeParam>({.heads = 3, .kv_heads = 1, .key_dim = 6, .value_dim = 5}, keys - rows, rows)
          .expect_causal_reference();
    }
  }
}

TYPED_TEST(AttendReference, MatchesTheReferenceForEveryWindow) {
  for (Position window : {1, 2, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025}) {
    for (Index rows : {1, 3, 70}) {
      for (Index past : {0, 70, 1030}) {
        SCOPED_TRACE(testing::Message() << rows << " rows after " << past << ", " << window);
        const Case<TypeParam> trial({.heads = 2, .kv_heads = 1, .key_dim = 5, .value_dim = 3}, past,
                                    rows);
        reference::Attention how = trial.reference();
        how.window = window;
        trial.expect_reference(how, Causal{window});
      }
    }
  }
}

// Keys in one format and values in another.
template <class Formats>
class AttendFormats : public testing::Test {};
using KeyValueFormats =
    testing::Types<trial::Formats<codec::F16, codec::Int8>, trial::Formats<codec::F16, codec::Int4>,
                   trial::Formats<codec::Int8, codec::F16>,
                   trial::Formats<codec::Int8, codec::Int4>>;
TYPED_TEST_SUITE(AttendFormats, KeyValueFormats);

TYPED_TEST(AttendFormats, MatchTheReference) {
  using FormatCase = Case<typename TypeParam::Keys, typename TypeParam::Values>;
  for (Index key_dim : {1, 7, 33, 65, 128}) {
    for (Index value_dim : {5, 16, 33, 81, 128}) {
      SCOPED_TRACE(testing::Message() << "keys of " << key_dim << ", values of " << value_dim);
      FormatCase({.key_dim = key_dim, .value_dim = value_dim}, 20, 4).expect_causal_reference();
    }
  }
  for (Index past : {0, 60, 1020}) {
    SCOPED_TRACE(testing::Message() << "seven rows behind " << past);
    FormatCase({.heads = 3, .kv_heads = 1, .key_dim = 40, .value_dim = 70}, past, 7)
        .expect_causal_reference();
  }
}

// Scores and masks do not know how keys are stored: one format is enough.
template <class C>
class Attend : public testing::Test {};
using Codecs = testing::Types<codec::F32, codec::BF16, codec::F16>;
TYPED_TEST_SUITE(Attend, Codecs);

TEST(AttendOtherwise, MatchesTheReferenceWithSoftCaps) {
  for (float cap : {0.5f, 30.0f}) {
    const Case<codec::F32> trial({}, 90, 8);
    reference::Attention how = trial.reference();
    how.softcap = static_cast<double>(cap);
    trial.expect_reference(how, Causal{}, attention::SoftCap{cap}, static_cast<double>(cap));
  }
}

TEST(AttendOtherwise, MatchesTheReferenceWithBiases) {
  const Index keys = 75;
  const Case<codec::F32> trial({.heads = 4, .kv_heads = 2}, keys - 9, 9);
  std::vector<float> bias = trial::noisy(4 * 9 * keys, 4, 3.0);
  for (std::size_t n = 0; n < bias.size(); n += 3) bias[n] = -trial::kInfinity;
  std::fill_n(bias.begin() + 2 * 9 * keys, keys,
              -trial::kInfinity);  // row 0 of head 2 sees nothing
  reference::Attention how = trial.reference();
  how.bias = [&](Index head, Index row, Index key) {
    return static_cast<double>(bias[static_cast<std::size_t>((head * 9 + row) * keys + key)]);
  };
  const attention::Bias transform = {
      .bias = bias.data(), .head_stride = 9 * keys, .row_stride = keys};
  trial.expect_reference(how, Causal{}, transform, 3);
  how.window = 20;
  trial.expect_reference(how, Causal{20}, transform, 3);
  how.causal = false;
  trial.expect_reference(how, Bidirectional{keys}, transform, 3);
}

TEST(AttendOtherwise, SharesABiasAlongStridesOfZero) {
  const Index keys = 40;
  const Case<codec::F32> trial({}, keys - 2, 2);
  const std::vector<float> bias = trial::noisy(keys, 5, 3.0);
  reference::Attention how = trial.reference();
  how.bias = [&](Index, Index, Index key) {
    return static_cast<double>(bias[static_cast<std::size_t>(key)]);
  };
  trial.expect_reference(how, Causal{}, attention::Bias{.bias = bias.data()}, 3);
}

TEST(AttendOtherwise, MatchesTheReferenceWhenEveryRowSeesEveryKey) {
  for (Index keys : {1, 17, 64, 130, 1100}) {
    for (Index rows : {1, 5, 17}) {
      if (rows > keys) continue;
      const Case<codec::F32> trial({}, keys - rows, rows);
      reference::Attention how = trial.reference();
      how.causal = false;
      trial.expect_reference(how, Bidirectional{keys});
    }
  }
}

TYPED_TEST(Attend, OfRowsThatSeeNothingIsZeroAndMinusInfinity) {
  const Case<TypeParam> trial({}, 0, 20);
  const trial::Attended early =
      trial::attend(trial.store, -100, trial.queries, 4, trial.scale, Causal{});
  const trial::Attended none =
      trial::attend(trial.store, 3, trial.queries, 4, trial.scale, Bidirectional{0});
  for (const trial::Attended& result : {early, none}) {
    for (float number : result.output) EXPECT_EQ(std::bit_cast<std::uint32_t>(number), 0u);
    for (float number : result.log_sum_exp) EXPECT_EQ(number, -trial::kInfinity);
  }
}

// A NaN score is not the same as an unseen key, wherever it stands among the tiles.
TYPED_TEST(Attend, OfNaNScoresIsNaN) {
  for (const Index queries : {1, 7}) {
    for (const Index keys : {5, 64, 200, 1100}) {
      Case<TypeParam> trial({}, keys, queries);
      for (double& cell : trial.queries.cells) cell = std::numeric_limits<double>::quiet_NaN();
      const trial::Attended result =
          trial::attend(trial.store, keys, trial.queries, 4, trial.scale, Causal{});
      for (float number : result.output) EXPECT_TRUE(std::isnan(number));
      for (float number : result.log_sum_exp) EXPECT_TRUE(std::isnan(number));
    }
  }
}

TYPED_TEST(Attend, OfOneKeyIsItsValue) {
  const Case<TypeParam> trial({.heads = 2, .kv_heads = 1, .key_dim = 9, .value_dim = 21}, 300, 1);
  const trial::Attended result =
      trial::attend(trial.store, 300, trial.queries, 2, trial.scale, Causal{1});
  const std::vector<float> value = reference::to_float(trial.values.row(300));
  EXPECT_EQ(std::vector<float>(result.output.begin(), result.output.begin() + 21), value);
  EXPECT_EQ(std::vector<float>(result.output.begin() + 21, result.output.end()), value);
}

// A later maximum rescales the earlier sum; after an early one later terms vanish.
TYPED_TEST(Attend, FollowsAMaximumThatMovesFromTileToTile) {
  for (const double slope : {0.5, -0.5}) {
    Case<TypeParam> trial({.heads = 1, .kv_heads = 1, .key_dim = 2, .value_dim = 3}, 299, 1);
    for (Index key = 0; key < 300; ++key) {
      trial.keys.row(key)[0] = slope * static_cast<double>(key / 4);
      trial.keys.row(key)[1] = 0.0;
    }
    trial.queries.row(0)[0] = 1.0;
    trial.scale = 1.0;
    trial.store = trial::store_of<TypeParam>(1, trial.keys, trial.values, 320);
    trial.expect_reference(trial.reference(), Causal{}, attention::Plain{}, 40);
  }
}

// Rows of queries and of output further apart than they are wide, and no log-sum-exp.
TYPED_TEST(Attend, FollowsItsStridesAndNeedsNoLogSumExp) {
  const Case<TypeParam> trial({}, 10, 5);
  const trial::Attended expected =
      trial::attend(trial.store, 10, trial.queries, 4, trial.scale, Causal{});
  std::vector<float> queries(5 * 100, trial::kNaN);
  std::vector<float> out(5 * 90, 7.0f);
  for (Index row = 0; row < 5; ++row) {
    const std::vector<float> from = reference::to_float(trial.queries.row(row));
    std::copy(from.begin(), from.end(), queries.begin() + row * 100);
  }
  using Store = kv::Contiguous<TypeParam>;
  const attention::Sequence<Store> sequence = {&trial.store, 10, 5, queries.data(), out.data()};
  attention::Scratch scratch(trial.store.geometry(), 4, 1, 1, 64);
  attention::attend(std::span(&sequence, 1),
                    {.layer = 0,
                     .heads = 4,
                     .scale = static_cast<float>(trial.scale),
                     .query_stride = 100,
                     .out_stride = 90},
                    Causal{}, attention::Plain{}, scratch, serial_executor());
  for (std::size_t n = 0; n < out.size(); ++n) {
    const std::size_t column = n % 90;
    EXPECT_EQ(out[n], column < 64 ? expected.output[n / 90 * 64 + column] : 7.0f);
  }
}

// Segments are spread over as many workers as the scratch has slots for.
TEST(AttendScratch, TakesAContextLongerThanItWasMadeFor) {
  constexpr Index kSegments = 9;
  const Index keys = kSegments * attention::kSegmentKeys;
  const reference::Matrix rows = noisy_rows(keys, 4, 1);
  const auto store = trial::store_of(1, rows, rows, keys);
  const std::vector<float> query = {1.0f, -1.0f, 0.5f, 2.0f};
  const attention::Problem problem = {.heads = 1, .query_stride = 4, .out_stride = 4};
  std::vector<std::vector<float>> outs;
  for (const Index positions : {Index{100}, keys}) {
    trial::ShuffledExecutor executor(3, 1);
    outs.emplace_back(4);
    const attention::Sequence<kv::Contiguous<codec::F32>> sequence = {
        &store, keys - 1, 1, query.data(), outs.back().data()};
    attention::Scratch scratch(store.geometry(), 1, 3, 1, positions);
    attention::attend(std::span(&sequence, 1), problem, Causal{}, attention::Plain{}, scratch,
                      executor);
    EXPECT_EQ(executor.items(), std::vector<Index>{positions == keys ? kSegments : 1});
  }
  EXPECT_TRUE(trial::same_bits(outs[0], outs[1]));
}

// Every buffer of a worker has its documented size, and no two overlap.
TEST(AttendScratch, GivesEveryWorkerBuffersOfItsOwn) {
  constexpr Index kQueries = 96;
  static_assert(attention::tile_rows(3) * 3 == kQueries);
  attention::Scratch scratch({1, 2, 5, 17}, 6, 3, 1, 64);
  const auto for_buffers = [&](auto&& f) {
    for (Index at = 0; at < 3; ++at) {
      const attention::Scratch::Worker worker = scratch.worker(at);
      const auto name = static_cast<int>(at) * 100;
      f(worker.queries, kQueries * 5, static_cast<float>(name));
      f(worker.int_queries, kQueries * 3, name + 1);
      f(worker.query_scales, kQueries, static_cast<float>(name + 2));
      f(worker.sums, kQueries * kLanes, static_cast<float>(name + 3));
      f(worker.values, kQueries * 32, static_cast<float>(name + 4));
      f(worker.scores, kQueries * attention::kTileKeys, static_cast<float>(name + 5));
      f(worker.keys, kQueries, Range{name + 6, name + 6});
      f(&worker.parts->maximum, 1, static_cast<float>(name + 7));
      f(&worker.parts[kQueries - 1].maximum, 1, static_cast<float>(name + 8));
      f(&worker.totals->maximum, 1, static_cast<float>(name + 9));
      f(&worker.totals[kQueries - 1].maximum, 1, static_cast<float>(name + 10));
    }
  };
  for_buffers([](auto* buffer, Index count, auto number) { std::fill_n(buffer, count, number); });
  for_buffers([](const auto* buffer, Index count, auto number) {
    EXPECT_EQ(std::count(buffer, buffer + count, number), count);
  });
}

TEST(AttendScratch, IsRefusedForAnotherProblem) {
  const reference::Matrix rows = noisy_rows(8, 4, 1);
  const auto store = trial::store_of(1, rows, rows, 8);
  const std::vector<float> query(8);
  std::vector<float> out(8);
  const attention::Sequence<kv::Contiguous<codec::F32>> sequence = {&store, 7, 1, query.data(),
                                                                    out.data()};
  const auto attend = [&](attention::Scratch scratch, Index heads, Executor& executor) {
    attention::attend(std::span(&sequence, 1),
                      {.heads = heads, .query_stride = 4 * heads, .out_stride = 4 * heads},
                      Causal{}, attention::Plain{}, scratch, executor);
  };
  ThreadPool pool(2);
  using attention::Scratch;
  Scratch scratch_of_one({1, 1, 4, 4}, 1, 1, 1, 8);
  EXPECT_NO_THROW(attend(Scratch({1, 1, 4, 4}, 1, 1, 1, 8), 1, serial_executor()));
  EXPECT_THROW(attend(Scratch({1, 1, 4, 4}, 2, 1, 1, 8), 1, serial_executor()),
               std::invalid_argument);
  EXPECT_THROW(attend(Scratch({1, 1, 4, 5}, 1, 1, 1, 8), 1, serial_executor()),
               std::invalid_argument);
  EXPECT_THROW(attend(Scratch({1, 1, 3, 4}, 1, 1, 1, 8), 1, serial_executor()),
               std::invalid_argument);
  EXPECT_THROW(attend(Scratch({1, 1, 4, 4}, 1, 1, 1, 8), 1, pool), std::invalid_argument);
  EXPECT_THROW(Scratch({1, 2, 4, 4}, 3, 1, 1, 8), std::invalid_argument);
  EXPECT_THROW(attention::attend(std::span(&sequence, 1),
                                 {.layer = 1, .heads = 1, .query_stride = 4, .out_stride = 4},
                                 Causal{}, attention::Plain{}, scratch_of_one, serial_executor()),
               std::invalid_argument);
  EXPECT_THROW(
      attention::attend(std::span(&sequence, 1), {.heads = 1, .query_stride = 4, .out_stride = 4},
                        Bidirectional{9}, attention::Plain{}, scratch_of_one, serial_executor()),
      std::invalid_argument);
  EXPECT_THROW(Scratch({1, 1, 4, 4}, 1, 0, 1, 8), std::invalid_argument);
}

TEST(AttendLayers, ReadsTheLayerThatIsAskedFor) {
  kv::Contiguous<codec::F32> store({3, 1, 2, 1}, 16);
  const std::vector<float> key = {0.0f, 0.0f};
  for (Index layer = 0; layer < 3; ++layer) {
    const float value = static_cast<float>(layer) + 1;
    store.put(layer, 0, 0, key, {&value, 1});
  }
  for (Index layer = 0; layer < 3; ++layer) {
    float out = 0;
    const attention::Sequence<kv::Contiguous<codec::F32>> sequence = {&store, 0, 1, key.data(),
                                                                      &out};
    attention::Scratch scratch(store.geometry(), 1, 1, 1, 64);
    attention::attend(std::span(&sequence, 1),
                      {.layer = layer, .heads = 1, .query_stride = 2, .out_stride = 1}, Causal{},
                      attention::Plain{}, scratch, serial_executor());
    EXPECT_EQ(out, static_cast<float>(layer) + 1);
  }
}

}  // namespace
