// tests/model/batch_test.cpp - the rows and logits of a batch, in the order in which they came.
#include <decant/model/batch.hpp>

#include <decant/codec/plain.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using Store = kv::Contiguous<codec::F32>;
using model::Batch;
using model::Logits;

Store small_store() { return Store({1, 1, 4, 4}, 16); }
const std::vector<Token> kThree = {7, 8, 9};
const std::vector<Token> kOne = {5};

TEST(Batch, HasItsEntriesInOrder) {
  Store a = small_store();
  Store b = small_store();
  Store c = small_store();
  Batch<Store> batch;
  batch.add(a, kThree, Logits::all);
  batch.add(b, kOne);
  batch.add(c, kThree, Logits::none);
  EXPECT_EQ(batch.rows(), 7);
  EXPECT_EQ(batch.logit_rows(), 3 + 1);
  const std::span<const Token> tokens = batch.tokens();
  EXPECT_EQ(std::vector<Token>(tokens.begin(), tokens.end()),
            (std::vector<Token>{7, 8, 9, 5, 7, 8, 9}));
  ASSERT_EQ(batch.entries().size(), 3u);
  EXPECT_EQ(batch.entries()[1].store, &b);
  EXPECT_EQ(batch.entries()[1].first_row, 3);
  EXPECT_EQ(batch.entries()[1].rows, 1);
  EXPECT_EQ(batch.entries()[1].wanted, Logits::last);
  EXPECT_EQ(batch.entries()[2].first_row, 4);
  ASSERT_EQ(model::detail::sequences(batch).size(), 3u);
  EXPECT_EQ(model::detail::sequences(batch)[2].store, &c);
  EXPECT_EQ(model::detail::sequences(batch)[2].rows, 3);
}

TEST(Batch, TouchesNoStore) {
  Store store = small_store();
  Batch<Store> batch;
  batch.add(store, kThree);
  EXPECT_EQ(store.end(), 0);
}

TEST(Batch, IsEmptyAfterClear) {
  Store store = small_store();
  Batch<Store> batch;
  batch.add(store, kThree, Logits::all);
  batch.clear();
  EXPECT_EQ(batch.rows(), 0);
  EXPECT_EQ(batch.logit_rows(), 0);
  EXPECT_TRUE(batch.entries().empty());
  EXPECT_TRUE(model::detail::sequences(batch).empty());
  batch.add(store, kOne);
  EXPECT_EQ(batch.entries()[0].first_row, 0);
  EXPECT_EQ(batch.logit_rows(), 1);
}

TEST(Batch, RefusesNoTokensAndAStoreTwice) {
  Store store = small_store();
  Store other = small_store();
  Batch<Store> batch;
  batch.add(store, kThree);
  EXPECT_THROW(batch.add(other, {}), std::invalid_argument);
  EXPECT_THROW(batch.add(store, kOne), std::invalid_argument);
  EXPECT_EQ(batch.rows(), 3);
  EXPECT_EQ(batch.entries().size(), 1u);
  EXPECT_EQ(batch.logit_rows(), 1);
}

}  // namespace
