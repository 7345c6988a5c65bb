// Alignment, sizes and ownership; leaks and double frees show under the address sanitizer.
#include <decant/core/buffer.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace decant {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer<float>>);
static_assert(!std::is_copy_assignable_v<Buffer<float>>);
static_assert(std::is_nothrow_move_constructible_v<Buffer<float>>);
static_assert(std::is_nothrow_move_assignable_v<Buffer<float>>);

template <class Cell>
bool starts_a_cache_line(const Buffer<Cell>& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0;
}

TEST(Buffer, StartsOnACacheLineWhateverItsSize) {
  for (Index size : {1, 3, 16, 17, 1000}) {
    EXPECT_TRUE(starts_a_cache_line(Buffer<float>(size))) << size;
    EXPECT_TRUE(starts_a_cache_line(Buffer<std::uint16_t>(size))) << size;
    EXPECT_TRUE(starts_a_cache_line(Buffer<std::uint8_t>(size))) << size;
  }
}

TEST(Buffer, CountsCellsAndBytes) {
  const Buffer<std::uint16_t> buffer(33);
  EXPECT_EQ(buffer.size(), 33);
  EXPECT_EQ(buffer.bytes(), 66);
}

TEST(Buffer, HoldsWhatIsWrittenUpToTheLastCell) {
  Buffer<double> buffer(5);
  for (Index i = 0; i < 5; ++i) buffer[i] = static_cast<double>(i) * 1.5;
  const Buffer<double>& view = buffer;
  EXPECT_EQ(view[0], 0.0);
  EXPECT_EQ(view[4], 6.0);
  EXPECT_EQ(view.data() + 4, &view[4]);
}

TEST(Buffer, OfNothingHoldsNoMemory) {
  const Buffer<float> made;
  const Buffer<float> sized(0);
  EXPECT_EQ(made.data(), nullptr);
  EXPECT_EQ(sized.data(), nullptr);
  EXPECT_EQ(sized.size(), 0);
  EXPECT_EQ(sized.bytes(), 0);
}

TEST(Buffer, RefusesSizesThatAreNegativeOrOverflow) {
  EXPECT_THROW(Buffer<float>(-1), std::invalid_argument);
  EXPECT_THROW(Buffer<float>{std::numeric_limits<Index>::max()}, std::invalid_argument);
  EXPECT_THROW(Buffer<float>(Index{1} << 62), std::invalid_argument);  // wraps to 0 bytes
}

TEST(Buffer, MovesItsMemoryAndLeavesNothingBehind) {
  Buffer<int> source(3);
  source[2] = 42;
  const int* memory = source.data();
  Buffer<int> target(std::move(source));
  EXPECT_EQ(target.data(), memory);
  EXPECT_EQ(target[2], 42);
  EXPECT_EQ(source.data(), nullptr);  // NOLINT: the moved-from state is part of the contract
  EXPECT_EQ(source.size(), 0);
}

TEST(Buffer, MoveAssignmentTakesMemoryAndSize) {
  Buffer<int> source(3);
  source[0] = 7;
  Buffer<int> target(100);
  target = std::move(source);
  EXPECT_EQ(target.size(), 3);
  EXPECT_EQ(target[0], 7);
  target = Buffer<int>();
  EXPECT_EQ(target.size(), 0);
}

TEST(Buffer, SurvivesAssignmentToItself) {
  Buffer<int> buffer(2);
  buffer[1] = 9;
  Buffer<int>& same = buffer;
  buffer = std::move(same);
  EXPECT_EQ(buffer.size(), 2);
  EXPECT_EQ(buffer[1], 9);
}

}  // namespace
}  // namespace decant
