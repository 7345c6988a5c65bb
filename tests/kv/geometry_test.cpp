// tests/kv/geometry_test.cpp - memory as arithmetic, most of it checked by the compiler.
#include <decant/kv/geometry.hpp>

#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace {

using namespace decant;
using codec::BF16;
using codec::F16;
using codec::F32;
using codec::FP8E4M3;
using codec::Int4;
using codec::Int8;
using kv::Geometry;

// Llama 3.1 70B, with its 8 key and value heads, and as if every query head had its own.
constexpr Geometry kLlama70B = {.layers = 80, .heads = 8, .key_dim = 128, .value_dim = 128};
constexpr Geometry kUngrouped = {.layers = 80, .heads = 64, .key_dim = 128, .value_dim = 128};

static_assert(kLlama70B.cells_per_token() == 163'840);
static_assert(kLlama70B.payload_bytes(1, 2) == 327'680);
static_assert(kLlama70B.payload_bytes(2'500, 2) == 819'200'000);
static_assert(kLlama70B.payload_bytes(131'072, 2) == 42'949'672'960);
static_assert(kUngrouped.payload_bytes(1, 2) == 8 * 327'680);
static_assert(kUngrouped.payload_bytes(131'072, 2) == 8 * 42'949'672'960);
static_assert(kLlama70B.payload_bytes(131'072, 4) == 2 * 42'949'672'960);
static_assert(kLlama70B.payload_bytes(0, 2) == 0);

// Whole panels: nothing is padding but the last panel's free slots.
static_assert(kLlama70B.bytes<BF16>(131'072) == kLlama70B.payload_bytes(131'072, 2));
static_assert(kLlama70B.bytes<F16>(131'072) == kLlama70B.payload_bytes(131'072, 2));
static_assert(kLlama70B.bytes<F32>(131'072) == kLlama70B.payload_bytes(131'072, 4));
static_assert(kLlama70B.bytes<BF16>(1) == kLlama70B.payload_bytes(16, 2));
static_assert(kLlama70B.bytes<BF16>(16) == kLlama70B.payload_bytes(16, 2));
static_assert(kLlama70B.bytes<BF16>(17) == kLlama70B.payload_bytes(32, 2));
static_assert(kLlama70B.bytes<BF16>(2'500) == kLlama70B.payload_bytes(2'512, 2));

// Keys and values that differ in size, and sizes that are no whole panel.
constexpr Geometry kLatent = {.layers = 1, .heads = 1, .key_dim = 576, .value_dim = 512};
static_assert(kLatent.cells_per_token() == 1'088);
constexpr Geometry kOdd = {.layers = 3, .heads = 5, .key_dim = 7, .value_dim = 17};
static_assert(kOdd.cells_per_token() == 360);
static_assert(kOdd.key_panel_bytes<F32>() == 7 * 16 * 4);
static_assert(kOdd.key_panel_bytes<BF16>() == 8 * 16 * 2);
static_assert(kOdd.value_panel_bytes<BF16>() == 32 * 16 * 2);
static_assert(kOdd.panel_bytes<BF16>() == 40 * 16 * 2);
static_assert(kOdd.panel_bytes<F32, BF16>() == 7 * 16 * 4 + 32 * 16 * 2);
static_assert(kOdd.panel_bytes<Int8>() == 39 * 16 + 2 * 16 * 4);  // a scale a key, and a value
static_assert(kOdd.panel_bytes<Int8, F16>() == 7 * 16 + 32 * 16 * 2 + 16 * 4);
static_assert(kOdd.panel_bytes<Int4>() == (4 + 16) * 16 + 2 * 16 * 4);       // two values a byte
static_assert(kLlama70B.bytes<Int4>(16) == 80 * 8 * 16 * 2 * (64 + 4 * 4));  // a scale for 32
static_assert(kLlama70B.payload_bytes<Int4>(1) == 80 * 8 * 2 * (64 + 4 * 4));
static_assert(kOdd.payload_bytes<Int4>(1) == 3 * 5 * (4 + 4 + 16 + 4));
// Keys of 32 elements and of other sizes, with a scale for each full or begun group of 32.
constexpr Index int4_key_bytes(Index dim) {
  return Geometry{1, 1, dim, 32}.payload_bytes<Int4>(1) - 20;
}
static_assert(int4_key_bytes(32) == 20 && int4_key_bytes(64) == 40 && int4_key_bytes(80) == 52 &&
              int4_key_bytes(96) == 60 && int4_key_bytes(128) == 80);
static_assert(int4_key_bytes(1) == 5 && int4_key_bytes(33) == 25 && int4_key_bytes(65) == 45);
static_assert(kLlama70B.bytes<FP8E4M3>(16) == 80 * 8 * 16 * (128 + 4 + 128 + 4));
static_assert(kOdd.bytes<F32>(33) == 3 * 5 * 3 * 39 * 16 * 4);
static_assert(kOdd.bytes<BF16>(33) == 3 * 5 * 3 * 40 * 16 * 2);
static_assert(kOdd.bytes<F16>(33) == 3 * 5 * 3 * 39 * 16 * 2);

// Offsets that do not fit in 32 bits; the second would be 0 there.
static_assert(checked_product(2'066, 1'039'680) == 2'147'978'880);
static_assert(checked_product(1'048'576, 16'384) == 17'179'869'184);
static_assert(checked_product({64'000, 32, 128, 16}) == 4'194'304'000);
static_assert(checked_product({Index{1} << 20, 64, 128}) == 8'589'934'592);
constexpr Geometry kOneLayer = {.layers = 1, .heads = 64, .key_dim = 64, .value_dim = 64};
static_assert(kOneLayer.cells_per_token() * (Index{1} << 20) == 8'589'934'592);
static_assert(kOneLayer.bytes<F32>(Index{1} << 20) == 4 * 8'589'934'592);

static_assert(kLlama70B == kLlama70B && kLlama70B != kUngrouped);

TEST(Geometry, RefusesWhatDoesNotFitIn63Bits) {
  const Index huge = Index{1} << 40;
  EXPECT_THROW((Geometry{huge, huge, 1, 1}.cells_per_token()), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(kLlama70B.payload_bytes(Index{1} << 50, 2)),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(kLlama70B.bytes<F32>(Index{1} << 50)), std::invalid_argument);
  EXPECT_THROW((Geometry{1, 1, std::numeric_limits<Index>::max(), 1}.cells_per_token()),
               std::invalid_argument);
  EXPECT_THROW((Geometry{-1, 1, 1, 1}.cells_per_token()), std::invalid_argument);
}

template <class C>
void expect_bytes_allocated(const Geometry& geometry) {
  for (Index capacity : {1, 15, 16, 17, 64, 1000}) {
    EXPECT_EQ(kv::Contiguous<C>(geometry, capacity).bytes(), geometry.bytes<C>(capacity));
  }
}

TEST(Geometry, SaysWhatAStoreAllocates) {
  for (const Geometry& geometry : {kOdd, kLatent, Geometry{2, 3, 16, 48}}) {
    expect_bytes_allocated<F32>(geometry);
    expect_bytes_allocated<BF16>(geometry);
    expect_bytes_allocated<F16>(geometry);
    expect_bytes_allocated<Int8>(geometry);
    expect_bytes_allocated<FP8E4M3>(geometry);
    expect_bytes_allocated<Int4>(geometry);
  }
}

// Address space is not memory until rows arrive: the ends of a store of 5 GiB are a few pages.
TEST(Geometry, OffsetsReachBothEndsOfALargeStore) {
  if (kDebugStores) GTEST_SKIP() << "a store that is spoiled when it is made takes its memory";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need shadow memory for it";
#endif
  const Geometry geometry = {.layers = 5, .heads = 32, .key_dim = 64, .value_dim = 64};
  const Index capacity = 65'536;
  ASSERT_EQ(geometry.bytes<F32>(capacity), 5 * (Index{1} << 30));
  kv::Contiguous<F32> store(geometry, capacity);
  const std::vector<float> one(64, 1.0f);
  const std::vector<float> two(64, 2.0f);
  store.put(0, 0, 0, one, one);
  store.put(4, 31, capacity - 1, two, two);
  store.put(4, 0, 0, one, two);
  store.publish(capacity);
  std::vector<float> key(64);
  std::vector<float> value(64);
  store.get(4, 31, capacity - 1, key, value);
  EXPECT_EQ(key, two);
  store.get(0, 0, 0, key, value);
  EXPECT_EQ(value, one);
  store.get(4, 0, 0, key, value);
  EXPECT_EQ(value, two);
}

}  // namespace
