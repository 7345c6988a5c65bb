// tests/decoding/tree_drafter_test.cpp - tree drafts: the tokens and rows of a run without drafts.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/kv/paged.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

namespace decant::decoding {
namespace {

using Branch = std::vector<Token>;

// Proposes the right tokens, or the first of them, in one of its branches.
struct Oracle {
  Branch whole;
  Index branches = 3;
  Index right = 4;                                   // drafts of the right branch that are right
  Index length = std::numeric_limits<Index>::max();  // of a branch, at most
  Index calls = 0;
  std::mt19937 random{7};
  std::vector<Branch> said = {};

  std::span<const Branch> propose_branches(const History& history, Index most) {
    calls += 1;
    said.assign(static_cast<std::size_t>(branches), {});
    const auto good = static_cast<std::size_t>(random() % static_cast<unsigned long>(branches));
    for (std::size_t branch = 0; branch < said.size(); ++branch) {
      // Branches part at different positions.
      const Index same = branch == good ? right : static_cast<Index>(random() % 3);
      for (Index at = 0; at < std::min(most + 1, length); ++at) {  // one more than is wanted
        const std::size_t place = history.tokens.size() + static_cast<std::size_t>(at);
        if (place >= whole.size()) break;
        const Token token = whole[place];
        said[branch].push_back(at < same ? token : (token + 1 + static_cast<Token>(branch)) % 41);
      }
    }
    return said;
  }
};

template <class C>
class TreeDrafts : public testing::Test {
 protected:
  using Store = kv::Paged<C>;

  TreeDrafts()
      : decoder_(trial::decoder_of(trial::llama())),
        prompt_(trial::random_tokens(decoder_.config(), 21, 4)),
        pool_(decoder_.config().geometry(), 60, 16),
        workspace_(decoder_.config(), {.rows = 24, .logit_rows = 20, .sequences = 4}) {
    options_.max_new_tokens = 50;
    options_.log_probabilities = 1;
  }

  template <class D>
  Generation run(Store& store, D& drafter) {
    return generate(
        decoder_, store, workspace_, prompt_, options_, [](Token) { return true; }, drafter);
  }
  // All keys and values of a store, as they are read back.
  static std::vector<float> rows_of(const Store& store) {
    const kv::Geometry& geometry = store.geometry();
    const auto key_dim = static_cast<std::size_t>(geometry.key_dim);
    std::vector<float> all, row(key_dim + static_cast<std::size_t>(geometry.value_dim));
    for (Index layer = 0; layer < geometry.layers; ++layer) {
      for (Index head = 0; head < geometry.heads; ++head) {
        for (Position at = 0; at < store.end(); ++at) {
          store.get(layer, head, at, std::span(row).first(key_dim),
                    std::span(row).subspan(key_dim));
          all.insert(all.end(), row.begin(), row.end());
        }
      }
    }
    return all;
  }

  model::Decoder decoder_;
  Branch prompt_;
  kv::PagePool<C> pool_;
  model::Workspace workspace_;
  GenerateOptions options_;
};
using TreeDraftCodecs = testing::Types<codec::F32, codec::BF16, codec::Int8>;
TYPED_TEST_SUITE(TreeDrafts, TreeDraftCodecs);

TYPED_TEST(TreeDrafts, GivesTheTokensAndRowsOfARunWithoutDrafts) {
  for (double temperature : {0.0, 1.1}) {
    this->options_.sampler = {.temperature = temperature, .seed = 3};
    typename TestFixture::Store plain(this->pool_);
    NoDrafts none;
    const Generation expected = this->run(plain, none);
    Branch whole = this->prompt_;
    whole.insert(whole.end(), expected.tokens.begin(), expected.tokens.end());
    const std::vector<Index> ways =
        trial::kSlowBuild ? std::vector<Index>{6} : std::vector<Index>{1, 2, 6};
    for (Index branches : ways) {
      for (Index right : {0, 1, 3, 9}) {
        Oracle oracle{.whole = whole, .branches = branches, .right = right};
        oracle.length = branches == 1 ? 100 : right + 1;
        typename TestFixture::Store store(this->pool_);
        const Generation found = this->run(store, oracle);
        EXPECT_EQ(found.tokens, expected.tokens);
        EXPECT_EQ(found.reason, expected.reason);
        for (std::size_t at = 0; at < found.tokens.size(); ++at) {
          EXPECT_EQ(found.log_probabilities[at].taken, expected.log_probabilities[at].taken);
        }
        EXPECT_TRUE(trial::same_bits(this->rows_of(plain), this->rows_of(store)));
        const Statistics& statistics = found.statistics;
        EXPECT_GT(statistics.proposed_tokens, 0);
        EXPECT_LE(statistics.accepted_tokens, statistics.proposed_tokens);
        // The prompt gives a token, a step one and those accepted; the last has no drafts.
        const Index steps = statistics.generated_tokens - 1 - statistics.accepted_tokens;
        EXPECT_GE(steps, oracle.calls);
        EXPECT_LE(steps, oracle.calls + 1);
        // Every step but the last ones gives as many tokens as are right, and one more.
        if (right == 3) {
          EXPECT_GE(statistics.accepted_tokens, 30) << branches << " branches";
        }
      }
    }
    EXPECT_EQ(this->pool_.used_pages(), std::ssize(plain.pages()));  // no fork is left
  }
}

using TreeDraftsF32 = TreeDrafts<codec::F32>;

TEST_F(TreeDraftsF32, LeavesTheRightRowsWhenASinkThrowsOnAnotherBranch) {
  options_.log_probabilities = {};
  Store plain(pool_);
  NoDrafts none;
  const Generation expected = run(plain, none);
  Branch whole = prompt_;
  whole.insert(whole.end(), expected.tokens.begin(), expected.tokens.end());
  const auto rows = rows_of(plain);
  for (Index last = 1; last < 12; ++last) {
    Oracle oracle{.whole = whole};
    Store store(pool_);
    Index seen = 0;
    const auto sink = [&](Token) {
      if (++seen == last) throw std::runtime_error("enough");
      return true;
    };
    EXPECT_THROW(generate(decoder_, store, workspace_, prompt_, options_, sink, oracle),
                 std::runtime_error);
    EXPECT_EQ(store.end(), std::ssize(prompt_) + last - 1);
    plain.rewind(store.end());
    EXPECT_TRUE(trial::same_bits(rows_of(plain), rows_of(store)));
    plain = Store(pool_);
    run(plain, none);
  }
  EXPECT_TRUE(trial::same_bits(rows, rows_of(plain)));
}

TEST_F(TreeDraftsF32, GoesOnWithoutDraftsWhenThePoolIsFull) {
  Store plain(pool_);
  NoDrafts none;
  const Generation expected = run(plain, none);
  kv::PagePool<codec::F32> small(decoder_.config().geometry(), 5, 16);
  Branch whole = prompt_;
  whole.insert(whole.end(), expected.tokens.begin(), expected.tokens.end());
  Oracle oracle{.whole = whole};
  Store store(small);
  const Generation found = run(store, oracle);
  EXPECT_EQ(found.tokens, expected.tokens);
  // 71 positions in 5 pages: at the end none is left for forks.
  EXPECT_GT(found.statistics.proposed_tokens, 0);
  Store roomy(pool_);
  Oracle again{.whole = whole};
  EXPECT_LT(found.statistics.proposed_tokens, run(roomy, again).statistics.proposed_tokens);
  EXPECT_EQ(small.used_pages(), std::ssize(store.pages()));
}

TEST_F(TreeDraftsF32, RefusesRejection) {
  options_.verification = Verification::rejection;
  TreeNgramDrafter drafter;
  Store store(pool_);
  EXPECT_THROW(run(store, drafter), std::invalid_argument);
  EXPECT_EQ(store.end(), 0);
}

TEST(TreeNgram, ProposesWhatFollowedBefore) {
  TreeNgramDrafter drafter({.branches = 3, .most = 2, .longest = 2, .shortest = 1});
  const Branch text = {1, 2, 3, 9, 1, 2, 4, 8, 7, 2, 5, 6, 1, 2};
  const auto branches = drafter.propose_branches({text, 0}, 8);
  ASSERT_EQ(branches.size(), 3u);
  EXPECT_EQ(branches[0], (Branch{4, 8}));  // what followed 1 2 last
  EXPECT_EQ(branches[1], (Branch{3, 9}));
  EXPECT_EQ(branches[2], (Branch{5, 6}));  // what followed 2
  EXPECT_EQ(drafter.propose_branches({text, 0}, 1)[0], (Branch{4}));
  const Branch song = {1, 2, 3, 1, 2, 3, 1, 2};
  EXPECT_EQ(drafter.propose_branches({song, 0}, 8).size(), 1u);  // one way, which it went twice
  const Branch fresh = {1, 2, 3};
  EXPECT_TRUE(drafter.propose_branches({fresh, 0}, 8).empty());
  EXPECT_THROW(TreeNgramDrafter({.branches = 0}), std::invalid_argument);
  EXPECT_THROW(TreeNgramDrafter({.most = 0}), std::invalid_argument);
  EXPECT_THROW(TreeNgramDrafter({.longest = 1, .shortest = 2}), std::invalid_argument);
}

}  // namespace
}  // namespace decant::decoding
