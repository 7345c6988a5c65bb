// tests/attention/mask_test.cpp - the range that each kind of row sees.
#include <decant/attention/mask.hpp>

#include <gtest/gtest.h>

#include <limits>

namespace {

using namespace decant;
using attention::Bidirectional;
using attention::Causal;

static_assert(attention::Mask<Causal> && attention::Mask<Bidirectional>);

static_assert(Causal{}.visible(0) == Range{0, 1});
static_assert(Causal{}.visible(9) == Range{0, 10});
static_assert(Causal{}.visible(-1).empty());

// A window of W: the token itself and the W - 1 before it.
static_assert(Causal{1}.visible(9) == Range{9, 10});
static_assert(Causal{4}.visible(9) == Range{6, 10});
static_assert(Causal{4}.visible(3) == Range{0, 4});
static_assert(Causal{4}.visible(4) == Range{1, 5});
static_assert(Causal{1024}.visible(1023) == Range{0, 1024});
static_assert(Causal{1024}.visible(1024) == Range{1, 1025});
static_assert(Causal{4}.visible(-1).empty() && Causal{4}.visible(-9).empty());

// Of [begin, end) alone: a row that sees nothing there ends where its own token does, or the part.
static_assert(Causal{.window = 4, .begin = 5}.visible(9) == Range{6, 10});
static_assert(Causal{.window = 4, .begin = 5}.visible(6) == Range{5, 7});
static_assert(Causal{.window = 4, .begin = 5}.visible(2) == Range{3, 3});
static_assert(Causal{.end = 5}.visible(2) == Range{0, 3});
static_assert(Causal{.end = 5}.visible(9) == Range{0, 5});
static_assert(Causal{.window = 2, .end = 5}.visible(9) == Range{5, 5});

static_assert(Bidirectional{7}.visible(0) == Range{0, 7});
static_assert(Bidirectional{7}.visible(100) == Range{0, 7});
static_assert(Bidirectional{}.visible(3).empty());

TEST(Mask, NeverGoesBackAsPositionsRise) {
  for (const Causal mask : {Causal{3, 7}, Causal{3, 0, 7}, Causal{0, 7}, Causal{0, 3, 9}}) {
    for (Position at = 0; at < 20; ++at) {
      EXPECT_LE(mask.visible(at).begin, mask.visible(at + 1).begin);
      EXPECT_LE(mask.visible(at).end, mask.visible(at + 1).end);
    }
  }
}

TEST(Mask, HoldsAtPositionsBeyond32Bits) {
  const Position far = Position{1} << 40;
  EXPECT_EQ(Causal{16}.visible(far), (Range{far - 15, far + 1}));
  EXPECT_EQ(Causal{}.visible(far).size(), far + 1);
  const Position last = std::numeric_limits<Position>::max() - 1;
  EXPECT_EQ(Causal{1}.visible(last), (Range{last, last + 1}));
}

TEST(Mask, SeesAsManyKeysAsTheWindowOnceThereAreThatMany) {
  for (Position window : {1, 2, 63, 64, 65}) {
    for (Position at = 0; at < 200; ++at) {
      const Range seen = Causal{window}.visible(at);
      EXPECT_EQ(seen.size(), std::min(window, at + 1));
      EXPECT_EQ(seen.end, at + 1);
    }
  }
}

}  // namespace
