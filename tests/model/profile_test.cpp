// tests/model/profile_test.cpp - a profile counts every operation of a step, and changes no bit.
#include <decant/model/decoder.hpp>

#include "law/models.hpp"

#include <decant/core/thread_pool.hpp>
#include <decant/model/profile.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace {

using namespace decant;
using model::Operation;
using Store = kv::Contiguous<codec::F32>;

TEST(Profile, CountsTheOperationsOfAStep) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const model::Config& config = decoder.config();
  const std::vector<Token> tokens = trial::random_tokens(config, 5, 1);
  model::Workspace workspace(config, {.rows = 5});
  Store plain(config.geometry(), 5);
  model::Batch<Store> batch;
  batch.add(plain, tokens);
  decoder.step(batch, workspace);
  const std::vector<float> expected(workspace.logits(0).begin(), workspace.logits(0).end());

  model::Profile profile;
  workspace.set_profile(&profile);
  Store store(config.geometry(), 5);
  batch.clear();
  batch.add(store, tokens);
  decoder.step(batch, workspace);
  EXPECT_TRUE(trial::same_bits(expected, workspace.logits(0)));

  EXPECT_EQ(profile[Operation::embedding].calls, 1);
  EXPECT_EQ(profile[Operation::products].calls, 4 * config.layers + 1);
  EXPECT_EQ(profile[Operation::norms].calls, 2 * config.layers);
  for (const Operation each : {Operation::rotation, Operation::attention, Operation::activation}) {
    EXPECT_EQ(profile[each].calls, config.layers) << name(each);
  }
  EXPECT_EQ(profile[Operation::sampling].calls, 0);

  // 1 + 2 + 3 + 4 + 5 keys, each a product and a sum of its elements, two flops apiece.
  const double seen = 15.0 * static_cast<double>(config.heads * config.layers);
  EXPECT_EQ(profile[Operation::attention].work.flops,
            2.0 * seen * static_cast<double>(config.key_dim + config.value_dim));
  EXPECT_EQ(profile[Operation::attention].work.bytes,
            4.0 * static_cast<double>(5 * config.geometry().cells_per_token()));
  double all = 0;
  for (const Operation each : model::kOperations) all += profile[each].seconds;
  EXPECT_EQ(all, profile.seconds());
  profile.clear();
  EXPECT_EQ(profile.seconds(), 0);
}

TEST(Profile, OfWaitingIsTheTimeWithoutAPiece) {
  ThreadPool pool(2);
  model::WaitingExecutor executor(pool);
  EXPECT_EQ(executor.threads(), 2);
  std::vector<int> ran(8);
  executor.parallel_for(8, [&](Index item, Index worker) {
    if (worker != 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ran[static_cast<std::size_t>(item)] += 1;
  });
  EXPECT_EQ(ran, std::vector<int>(8, 1));
  EXPECT_GE(executor.seconds(), 0);
}

}  // namespace
