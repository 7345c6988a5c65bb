// tests/core/memory_test.cpp - memory of the caller's: what is asked of it, and what it fails.
#include <decant/attention/problem.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/mapped_memory.hpp>
#include <decant/core/memory.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/ring.hpp>
#include <decant/model/workspace.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace decant {
namespace {

// Counts what it gives, and gives no more than `budget` buffers.
class CountingMemory final : public std::pmr::memory_resource {
 public:
  int budget = 1 << 30;
  int made = 0;
  Index bytes = 0;  // in use
  std::size_t least_alignment = kHugePage;

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    if (made == budget) throw std::bad_alloc();
    void* data = default_memory().allocate(size, alignment);
    made += 1;
    bytes += static_cast<Index>(size);
    least_alignment = std::min(least_alignment, alignment);
    return data;
  }
  void do_deallocate(void* data, std::size_t size, std::size_t alignment) override {
    default_memory().deallocate(data, size, alignment);
    bytes -= static_cast<Index>(size);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

bool aligned(const void* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

TEST(Memory, OfABufferIsGivenBackAsItWasTaken) {
  CountingMemory memory;
  {
    Buffer<float> buffer(5, memory);
    EXPECT_EQ(memory.bytes, 20);
    Buffer<float> other(std::move(buffer));
    Buffer<float> third;
    third = std::move(other);
    EXPECT_EQ(memory.bytes, 20);
    third = Buffer<float>(7);  // of the default memory
    EXPECT_EQ(memory.bytes, 0);
    EXPECT_EQ(Buffer<float>(0, memory).data(), nullptr);
  }
  EXPECT_EQ(memory.made, 1);
  EXPECT_EQ(memory.bytes, 0);
  EXPECT_EQ(memory.least_alignment, 64u);
}

TEST(Memory, OfLargeBuffersBeginsAtAHugePage) {
  CountingMemory memory;
  const Buffer<std::byte> buffer(Index{4} * kHugePage, memory);
  EXPECT_EQ(memory.least_alignment, kHugePage);
  EXPECT_TRUE(aligned(buffer.data(), kHugePage));
}

constexpr kv::Geometry kGeometry = {.layers = 2, .heads = 1, .key_dim = 8, .value_dim = 8};

TEST(Memory, OfStoresIsWhatTheySayTheyTake) {
  CountingMemory memory;
  {
    const kv::Contiguous<codec::BF16> store(kGeometry, 100, memory);
    EXPECT_EQ(memory.bytes, store.bytes());
  }
  EXPECT_EQ(memory.bytes, 0);
  {
    const kv::Ring<codec::BF16> store(kGeometry, 32, 8, 0, memory);
    EXPECT_EQ(memory.bytes, store.bytes());
  }
  EXPECT_EQ(memory.bytes, 0);
  {
    const kv::PagePool<codec::BF16> pool(kGeometry, 4, 16, memory);
    EXPECT_GE(memory.bytes, pool.bytes());
  }
  EXPECT_EQ(memory.bytes, 0);
  EXPECT_EQ(memory.made, 3);
}

model::Config small_config() {
  model::Config config;
  config.vocabulary = 40;
  config.layers = 2;
  config.hidden_size = 8;
  config.heads = config.kv_heads = 1;
  config.key_dim = config.value_dim = 8;
  config.intermediate_size = 12;
  config.max_positions = 64;
  config.sink_tokens = 4;
  return config;
}

TEST(Memory, ThatFailsAnywhereInAWorkspaceLeavesNothingBehind) {
  CountingMemory counted;
  {
    const model::Workspace workspace(small_config(), {.rows = 4}, serial_executor(), counted);
  }
  EXPECT_EQ(counted.bytes, 0);
  EXPECT_EQ(counted.made, 20);  // every buffer is one of that memory
  for (int budget = 0; budget < counted.made; ++budget) {
    CountingMemory memory;
    memory.budget = budget;
    EXPECT_THROW(model::Workspace(small_config(), {.rows = 4}, serial_executor(), memory),
                 std::bad_alloc);
    EXPECT_EQ(memory.bytes, 0) << budget;
  }
  CountingMemory none;
  none.budget = 0;
  EXPECT_THROW(kv::Contiguous<codec::BF16>(kGeometry, 100, none), std::bad_alloc);
  EXPECT_THROW(kv::Ring<codec::BF16>(kGeometry, 32, 8, 0, none), std::bad_alloc);
  EXPECT_THROW(kv::PagePool<codec::BF16>(kGeometry, 4, 16, none), std::bad_alloc);
}

TEST(MappedMemory, IsAlignedAndWritable) {
  for (const bool huge_pages : {false, true}) {
    MappedMemory memory({.huge_pages = huge_pages});
    std::vector<std::pair<std::byte*, std::size_t>> parts;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{70000}, 5 * kHugePage + 1}) {
      for (const std::size_t alignment : {std::size_t{64}, kHugePage}) {
        auto* data = static_cast<std::byte*>(memory.allocate(bytes, alignment));
        EXPECT_TRUE(aligned(data, alignment));
        std::memset(data, static_cast<int>(parts.size() + 1), bytes);
        parts.emplace_back(data, bytes);
      }
    }
    for (std::size_t at = 0; at < parts.size(); ++at) {
      EXPECT_EQ(parts[at].first[0], std::byte(at + 1));
      EXPECT_EQ(parts[at].first[parts[at].second - 1], std::byte(at + 1));
      memory.deallocate(parts[at].first, parts[at].second);
    }
  }
}

TEST(MappedMemory, RefusesWhatIsTooLarge) {
  MappedMemory memory({});
  for (volatile std::size_t bytes : {SIZE_MAX, std::size_t{1} << 62}) {
    EXPECT_THROW(static_cast<void>(memory.allocate(bytes, 64)), std::bad_alloc);
  }
}

TEST(MappedMemory, IsBoundToANodeOrSaysWhyNot) {
  EXPECT_THROW(MappedMemory({.node = -1}), std::invalid_argument);
  EXPECT_THROW(MappedMemory({.node = 1024}), std::invalid_argument);
  EXPECT_THROW(MappedMemory({.node = 1023}), std::system_error);  // no machine has so many
  try {
    MappedMemory memory({.node = 0});
    kv::Contiguous<codec::BF16> store(kGeometry, 100, memory);
    store.reserve(1);
    const std::vector<float> ones(8, 1.0f);
    store.put(0, 0, 0, ones, ones);
  } catch (const std::system_error& error) {
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace decant
