// tests/law/allocation_test.cpp - once its workspace exists, a step allocates nothing.
//
// If an allocation fails, whichever it is, the stores are unchanged.
#include "law/allocations.hpp"
#include "law/models.hpp"

#include <decant/core/thread_pool.hpp>
#include <decant/kv/paged.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <new>
#include <span>
#include <vector>

namespace {

using namespace decant;

template <class F>
long allocations_of(F&& f) {
  const long before = trial::allocations;
  f();
  return trial::allocations - before;
}

TEST(Allocation, IsCounted) {
  EXPECT_GE(allocations_of([] { std::vector<int> made(3); }), 1);
  EXPECT_EQ(allocations_of([] { Buffer<float> made(100); }), 1);
}

// A prompt in two chunks beside another sequence, then single tokens, past the end of a segment.
template <class C>
class Session {
 public:
  using Store = kv::Contiguous<C>;

  Session(const model::Decoder& decoder, Executor& executor)
      : decoder_(decoder),
        tokens_(trial::random_tokens(decoder.config(), 1060, 1)),
        first_(decoder.config().geometry(), 1060),
        second_(decoder.config().geometry(), 1060),
        workspace_(decoder.config(), {.rows = 1060, .logit_rows = 8, .sequences = 2}, executor) {}

  void run() {
    first_.rewind(0);
    second_.rewind(0);
    step(first_, 500, second_, 20);
    step(first_, 530, second_, 1);
    for (int token = 0; token < 5; ++token) step(first_, 1, second_, 1);
    for (int token = 0; token < 5; ++token) step(first_, 1);
    step(second_, 7);
  }

 private:
  void add(Store& store, Index count) {
    batch_.add(store, std::span(tokens_).subspan(static_cast<std::size_t>(store.end()),
                                                 static_cast<std::size_t>(count)));
  }
  void step(Store& store, Index count) {
    batch_.clear();
    add(store, count);
    decoder_.step(batch_, workspace_);
  }
  void step(Store& a, Index a_count, Store& b, Index b_count) {
    batch_.clear();
    add(a, a_count);
    add(b, b_count);
    decoder_.step(batch_, workspace_);
  }

  const model::Decoder& decoder_;
  std::vector<Token> tokens_;
  Store first_;
  Store second_;
  model::Workspace workspace_;
  model::Batch<Store> batch_;
};

template <class C>
void expect_no_allocations() {
  for (const trial::Family& family : trial::families()) {
    const model::Decoder decoder = trial::decoder_of(family, C::kType);
    for (Index threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      Session<C> session(decoder, threads == 1 ? serial_executor() : pool);
      session.run();
      EXPECT_EQ(allocations_of([&] { session.run(); }), 0)
          << family.name << " on " << threads << " threads";
    }
  }
}

TEST(Allocation, DoesNotHappenInSteps) {
  expect_no_allocations<codec::F32>();
  expect_no_allocations<codec::BF16>();
}

// The batch grows once; the step itself needs no warming up.
TEST(Allocation, DoesNotHappenInTheFirstStepEither) {
  using Store = kv::Contiguous<codec::F32>;
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const std::vector<Token> tokens = trial::random_tokens(decoder.config(), 40, 1);
  ThreadPool pool(2);
  Store store(decoder.config().geometry(), 40);
  model::Workspace workspace(decoder.config(), {.rows = 40, .logit_rows = 40, .sequences = 1},
                             pool);
  model::Batch<Store> batch;
  batch.add(store, tokens, model::Logits::all);
  EXPECT_EQ(allocations_of([&] { decoder.step(batch, workspace); }), 0);
}

TEST(Allocation, DoesNotHappenForAdapters) {
  using Store = kv::Contiguous<codec::F32>;
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const std::vector<Token> tokens = trial::random_tokens(decoder.config(), 40, 1);
  const model::Adapter adapter = trial::adapter_of(decoder.config(), 8);
  ThreadPool pool(2);
  Store one(decoder.config().geometry(), 40), other(decoder.config().geometry(), 40);
  model::Workspace workspace(decoder.config(), {.rows = 41, .logit_rows = 2, .sequences = 2}, pool);
  model::Batch<Store> batch;
  batch.add(one, tokens, model::Logits::last, &adapter);
  batch.add(other, std::span(tokens).first(1), model::Logits::last, &adapter);
  EXPECT_EQ(allocations_of([&] { decoder.step(batch, workspace); }), 0);
}

// Two sequences in pages, one of them a fork, in one step of which any allocation may fail.
TEST(Allocation, ThatFailsInAStepLeavesStoresAsTheyWere) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const std::vector<Token> tokens = trial::random_tokens(decoder.config(), 60, 3);
  using Store = kv::Paged<codec::F32>;
  kv::PagePool<codec::F32> pool(decoder.config().geometry(), 12, 16);
  model::Workspace workspace(decoder.config(), {.rows = 60, .logit_rows = 2, .sequences = 2});
  Store one(pool);
  {
    model::Batch<Store> batch;
    batch.add(one, std::span(tokens).first(20));
    decoder.step(batch, workspace);
  }
  Store other = one.fork();
  const trial::Rows expected = trial::decoded<codec::F32>(decoder, tokens);
  model::Batch<Store> batch;
  batch.add(other, std::span(tokens).subspan(20, 1));  // has room when the next one fails
  batch.add(one, std::span(tokens).subspan(20));
  const long failures = trial::fail_each_allocation([&] { decoder.step(batch, workspace); },
                                                    [&] {
                                                      ASSERT_EQ(one.end(), 20);
                                                      ASSERT_EQ(other.end(), 20);
                                                      ASSERT_EQ(pool.used_pages(), 3);
                                                      ASSERT_EQ(pool.cached_pages(), 0);
                                                    });
  EXPECT_GE(failures, 1);  // the list of pages
  EXPECT_TRUE(trial::same_bits(expected[20], workspace.logits(0)));
  EXPECT_TRUE(trial::same_bits(expected.back(), workspace.logits(1)));
}

}  // namespace
