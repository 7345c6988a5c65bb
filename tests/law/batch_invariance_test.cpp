// tests/law/batch_invariance_test.cpp - other sequences, threads, rejected drafts and used memory
// change no bit.
#include "law/executors.hpp"
#include "law/models.hpp"
#include "law/sharing.hpp"

#include <decant/core/thread_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace decant;
using trial::Rows;
using trial::Runner;
using trial::ShuffledExecutor;

// All families; in a slow build only a few. The first two differ most: several key heads, and one.
std::vector<trial::Family> some_families(std::size_t in_slow_builds = 2) {
  std::vector<trial::Family> families = trial::families();
  if (trial::kSlowBuild) families.resize(in_slow_builds);
  return families;
}

template <class C>
class BatchInvariance : public testing::Test {};
using Codecs = testing::Types<codec::F32, codec::BF16, codec::F16>;
TYPED_TEST_SUITE(BatchInvariance, Codecs);

// Several sequences that advance together, in batches of random entries, order and row counts.
template <class C>
class Crowd {
 public:
  using Store = kv::Contiguous<C>;

  Crowd(const model::Decoder& decoder, const std::vector<Index>& lengths, Executor& executor)
      : decoder_(decoder),
        workspace_(decoder.config(), {.rows = 400, .logit_rows = 400, .sequences = 16}, executor) {
    for (Index length : lengths) {
      const unsigned seed = static_cast<unsigned>(members_.size()) + 1;
      members_.push_back({trial::poisoned_store<C>(decoder.config(), length),
                          trial::random_tokens(decoder.config(), length, seed),
                          {}});
    }
  }

  // One step of a random batch; false when every sequence is at its end.
  bool advance(std::mt19937& random) {
    std::vector<Member*> order;
    for (Member& member : members_) {
      if (member.store.end() < std::ssize(member.tokens)) order.push_back(&member);
    }
    if (order.empty()) return false;
    std::shuffle(order.begin(), order.end(), random);
    order.resize(1 + random() % order.size());
    batch_.clear();
    for (Member* member : order) {
      const std::span<const Token> left =
          std::span<const Token>(member->tokens)
              .subspan(static_cast<std::size_t>(member->store.end()));
      const std::size_t most = random() % 4 == 0 ? 60 : 8;
      batch_.add(member->store, left.first(std::min(left.size(), 1 + random() % most)),
                 model::Logits::all);
    }
    decoder_.step(batch_, workspace_);
    Index row = 0;
    for (std::size_t at = 0; at < order.size(); ++at) {
      for (Index i = 0; i < batch_.entries()[at].rows; ++i) {
        const std::span<const float> logits = workspace_.logits(row++);
        order[at]->rows.emplace_back(logits.begin(), logits.end());
      }
    }
    return true;
  }

  void expect_each_as_alone() const {
    for (const Member& member : members_) {
      EXPECT_TRUE(trial::same_rows(trial::decoded<C>(decoder_, member.tokens), member.rows))
          << "a sequence of " << member.tokens.size();
    }
  }

 private:
  struct Member {
    Store store;
    std::vector<Token> tokens;
    Rows rows;
  };

  const model::Decoder& decoder_;
  std::vector<Member> members_;
  model::Workspace workspace_;
  model::Batch<Store> batch_;
};

TYPED_TEST(BatchInvariance, OtherSequencesInAnyOrderChangeNoBit) {
  const std::vector<Index> lengths = trial::kSlowBuild
                                         ? std::vector<Index>{1, 17, 40}
                                         : std::vector<Index>{1, 2, 16, 17, 64, 65, 130, 200, 1100};
  for (const trial::Family& family : some_families()) {
    SCOPED_TRACE(family.name);
    const model::Decoder decoder = trial::decoder_of(family);
    std::mt19937 random(3);
    Crowd<TypeParam> crowd(decoder, lengths, serial_executor());
    while (crowd.advance(random)) {
    }
    crowd.expect_each_as_alone();
  }
}

TYPED_TEST(BatchInvariance, ThreadsAndSequencesChangeNoBit) {
  const model::Decoder decoder = trial::decoder_of(trial::windowed(), TypeParam::kType);
  const std::vector<Index> lengths = {1, 17, 65, trial::kSlowBuild ? 90 : 400};
  ThreadPool pool(3);
  ShuffledExecutor shuffled(4, 1);
  for (Executor* executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&shuffled)}) {
    std::mt19937 random(4);
    Crowd<TypeParam> crowd(decoder, lengths, *executor);
    while (crowd.advance(random)) {
    }
    crowd.expect_each_as_alone();
  }
}

// A prompt in two chunks, then single tokens across the end of a segment.
template <class C>
Rows long_run(const model::Decoder& decoder, std::span<const Token> tokens, Executor& executor,
              std::size_t prompt) {
  Runner<C> run(decoder, std::ssize(tokens), executor);
  Rows rows = run.feed(tokens.first(prompt / 3));
  for (Rows more : {run.feed(tokens.subspan(prompt / 3, prompt - prompt / 3)),
                    run.feed_one_by_one(tokens.subspan(prompt))}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

TYPED_TEST(BatchInvariance, ThreadsChangeNoBitOfALongSequence) {
  const std::size_t prompt = trial::kSlowBuild ? 1020 : 2040;
  for (const trial::Family& family : some_families(1)) {
    SCOPED_TRACE(family.name);
    const model::Decoder decoder = trial::decoder_of(family, TypeParam::kType);
    const std::vector<Token> tokens =
        trial::random_tokens(family.config, static_cast<Index>(prompt) + 14, 2);
    const Rows expected = long_run<TypeParam>(decoder, tokens, serial_executor(), prompt);
    for (Index threads = trial::kSlowBuild ? 3 : 2; threads <= 3; ++threads) {
      ThreadPool pool(threads);
      EXPECT_TRUE(trial::same_rows(expected, long_run<TypeParam>(decoder, tokens, pool, prompt)))
          << threads << " threads";
    }
    for (unsigned seed = 0; seed < 2; ++seed) {
      ShuffledExecutor shuffled(seed == 0 ? 2 : 5, seed);
      EXPECT_TRUE(
          trial::same_rows(expected, long_run<TypeParam>(decoder, tokens, shuffled, prompt)))
          << "shuffled, seed " << seed;
    }
  }
}

// Shows that the test above runs the code path that it is there for.
TYPED_TEST(BatchInvariance, ThreadsSplitALoneRowIntoSegments) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const std::vector<Token> tokens = trial::random_tokens(decoder.config(), 1100, 2);
  ShuffledExecutor shuffled(2, 0);
  Runner<TypeParam> run(decoder, 1101, shuffled);
  run.feed(tokens, model::Logits::none);
  const std::size_t before = shuffled.items().size();
  run.feed(std::span(tokens).first(1));
  const std::span<const Index> items = std::span(shuffled.items()).subspan(before);
  EXPECT_EQ(std::count(items.begin(), items.end(), 3 * 2), 2);  // heads by segments, in each layer
}

TYPED_TEST(BatchInvariance, RejectedDraftsChangeNoBit) {
  for (const trial::Family& family : some_families()) {
    SCOPED_TRACE(family.name);
    const model::Decoder decoder = trial::decoder_of(family);
    const std::vector<Token> tokens = trial::random_tokens(family.config, 150, 6);
    const std::vector<Token> drafts = trial::random_tokens(family.config, 150, 7);
    const Rows expected = trial::decoded<TypeParam>(decoder, tokens);
    Runner<TypeParam> run(decoder, 300);
    std::mt19937 random(8);
    Rows rows;
    while (rows.size() < tokens.size()) {
      run.feed(std::span(drafts).first(1 + random() % 80));  // rejected, every one of them
      run.store().rewind(static_cast<Position>(rows.size()));
      const std::span<const Token> left = std::span(tokens).subspan(rows.size());
      for (auto& row : run.feed(left.first(std::min(left.size(), 1 + random() % 20)))) {
        rows.push_back(row);
      }
    }
    EXPECT_TRUE(trial::same_rows(expected, rows));
  }
}

TYPED_TEST(BatchInvariance, ARewoundPastChangesNoBit) {
  const model::Decoder decoder = trial::decoder_of(trial::normed_heads());
  const std::vector<Token> tokens = trial::random_tokens(decoder.config(), 140, 9);
  const Rows expected = trial::decoded<TypeParam>(decoder, tokens);
  Runner<TypeParam> run(decoder, 140);
  run.feed(tokens);
  for (std::size_t end : {139u, 129u, 128u, 65u, 64u, 17u, 16u, 15u, 1u, 0u}) {
    run.store().rewind(static_cast<Position>(end));
    const Rows rows = run.feed(std::span(tokens).subspan(end));
    EXPECT_TRUE(trial::same_rows(
        {expected.begin() + static_cast<std::ptrdiff_t>(end), expected.end()}, rows))
        << "rewound to " << end;
  }
}

// Before each step, everything that an earlier step can leave in the workspace is NaN.
TYPED_TEST(BatchInvariance, AUsedWorkspaceChangesNoBit) {
  using Store = kv::Contiguous<TypeParam>;
  for (const trial::Family& family : some_families()) {
    SCOPED_TRACE(family.name);
    const model::Decoder decoder = trial::decoder_of(family);
    const Index length = trial::kSlowBuild ? 70 : 1030;
    const std::vector<Token> tokens = trial::random_tokens(family.config, length, 10);
    ShuffledExecutor shuffled(2, 3);
    model::Workspace workspace(family.config,
                               {.rows = length, .logit_rows = length, .sequences = 1}, shuffled);
    const auto poison = [&] {
      Store store = trial::poisoned_store<TypeParam>(family.config, length + 70);
      store.publish(length);  // as if NaN rows were held
      for (Index rows : {60, 1}) {
        model::Batch<Store> batch;
        batch.add(store, std::span(tokens).first(static_cast<std::size_t>(rows)),
                  model::Logits::all);
        decoder.step(batch, workspace);
        EXPECT_TRUE(std::isnan(workspace.logits(0)[0]));
      }
    };
    Store store = trial::poisoned_store<TypeParam>(family.config, length);
    Runner<TypeParam> clean(decoder, length);
    for (std::size_t at = 0; at < tokens.size();) {
      const std::size_t count =
          at + 6 >= tokens.size() ? 1 : std::min<std::size_t>(tokens.size() - 6 - at, 512);
      const std::span<const Token> chunk = std::span(tokens).subspan(at, count);
      const Rows expected = clean.feed(chunk);
      poison();
      model::Batch<Store> batch;
      batch.add(store, chunk, model::Logits::all);
      decoder.step(batch, workspace);
      for (std::size_t row = 0; row < count; ++row) {
        ASSERT_TRUE(trial::same_bits(expected[row], workspace.logits(static_cast<Index>(row))))
            << at + row;
      }
      at += count;
    }
  }
}

TYPED_TEST(BatchInvariance, SequencesThatSharePagesChangeNoBit) {
  trial::expect_undisturbed_in_one_step<TypeParam>();
}

}  // namespace
