// tests/model/reservation_test.cpp - a step that fails leaves no store with slots set aside.
#include <decant/model/decoder.hpp>

#include "law/models.hpp"

#include <decant/kv/layered.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace {

using namespace decant;

// A store that counts what was reserved and neither published nor given back.
class CountingStore : public kv::Contiguous<codec::F32> {
 public:
  using Contiguous::Contiguous;

  void reserve(Index tokens) {
    Contiguous::reserve(tokens);
    reserved_ += tokens;
  }
  void publish(Index tokens) noexcept {
    Contiguous::publish(tokens);
    reserved_ -= tokens;
  }
  void rewind(Position new_end) {
    Contiguous::rewind(new_end);
    reserved_ = 0;
  }
  Index reserved() const noexcept { return reserved_; }

 private:
  Index reserved_ = 0;
};

// Fails at its n-th call.
class FailingExecutor final : public Executor {
 public:
  explicit FailingExecutor(Index calls) : calls_(calls) {}
  Index threads() const noexcept override { return 1; }
  void parallel_for(Index items, FunctionRef<void(Index, Index)> piece) override {
    expects<std::runtime_error>(--calls_ != 0, "no more");
    serial_executor().parallel_for(items, piece);
  }

 private:
  Index calls_;
};

class Reservation : public testing::Test {
 protected:
  model::Decoder decoder_ = trial::decoder_of(trial::llama());
  std::vector<Token> tokens_ = trial::random_tokens(decoder_.config(), 8, 1);
  CountingStore large_{decoder_.config().geometry(), 12};
  CountingStore small_{decoder_.config().geometry(), 6};
  model::Batch<CountingStore> batch_;
};

TEST_F(Reservation, IsGivenBackWhereALaterStoreIsFull) {
  model::Workspace workspace(decoder_.config(), {.rows = 16, .logit_rows = 2, .sequences = 2});
  batch_.add(large_, tokens_);
  batch_.add(small_, tokens_);
  EXPECT_THROW(decoder_.step(batch_, workspace), CacheFull);
  EXPECT_EQ(large_.reserved(), 0);
  EXPECT_EQ(small_.reserved(), 0);
}

TEST_F(Reservation, IsGivenBackWhereverTheExecutorFails) {
  for (Index calls = 1; calls < 8; ++calls) {
    FailingExecutor failing(calls);
    model::Workspace workspace(decoder_.config(), {.rows = 16}, failing);
    batch_.clear();
    batch_.add(large_, tokens_);
    EXPECT_THROW(decoder_.step(batch_, workspace), std::runtime_error);
    EXPECT_EQ(large_.reserved(), 0);
    EXPECT_EQ(large_.end(), 0);
  }
}

// A step that runs in parts, since a ring takes three rows at once, begins none that cannot end.
TEST_F(Reservation, OfAStepInPartsIsRefusedBeforeItsFirst) {
  trial::Family family = trial::windowed();
  family.config.windows = {4, 0, 4};
  const model::Decoder decoder = trial::decoder_of(family);
  kv::Geometry local = family.config.geometry();
  kv::Geometry global = local;
  local.layers = 2;
  global.layers = 1;
  kv::Layered store(family.config.windows, kv::Ring<codec::F32>(local, 4, 3),
                    kv::Contiguous<codec::F32>(global, 30));
  const auto tokens = trial::random_tokens(family.config, 50, 1);
  model::Workspace workspace(decoder.config(), {.rows = 50});
  model::Batch<decltype(store)> batch;
  batch.add(store, tokens);
  EXPECT_THROW(decoder.step(batch, workspace), CacheFull);
  EXPECT_EQ(store.end(), 0);
}

TEST_F(Reservation, IsPublishedWhole) {
  model::Workspace workspace(decoder_.config(), {.rows = 16});
  batch_.add(large_, tokens_);
  decoder_.step(batch_, workspace);
  EXPECT_EQ(large_.reserved(), 0);
  EXPECT_EQ(large_.end(), 8);
}

}  // namespace
