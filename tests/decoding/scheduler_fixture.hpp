// tests/decoding/scheduler_fixture.hpp - a scheduler with the objects that it borrows, for tests of
// its requests.
#pragma once

#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

namespace decant::decoding {

namespace trial_requests {

using Tokens = std::vector<Token>;
using Pool = kv::PagePool<codec::F32>;
using Tree = kv::PrefixTree<codec::F32>;

inline Request request(Tokens prompt, Index new_tokens, int priority = 0) {
  return {
      .prompt = std::move(prompt), .options = {.max_new_tokens = new_tokens}, .priority = priority};
}

// A scheduler with the objects that it borrows, and the events so far.
class SchedulerHarness {
 public:
  SchedulerHarness(const model::Decoder& decoder, Index pages, const model::Limits& limits,
                   const SchedulerOptions& options = {}, bool shares = true)
      : workspace_(decoder.config(), limits),
        pool_(decoder.config().geometry(), pages, 16),
        tree_(pool_),
        scheduler_(decoder, workspace_, pool_, options, shares ? &tree_ : nullptr) {}

  RequestId submit(Request request) { return scheduler_.submit(std::move(request)); }
  Scheduler& scheduler() { return scheduler_; }
  Pool& pool() { return pool_; }
  Tree& tree() { return tree_; }

  void step() {
    for (Event& event : scheduler_.step()) {
      Tokens& tokens = tokens_[event.request];
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.outcome) outcomes_.emplace(event.request, std::move(*event.outcome));
    }
    const Index held = pool_.free_pages() + pool_.used_pages() + pool_.cached_pages();
    EXPECT_EQ(held, pool_.total_pages());
  }
  void finish() {
    while (!scheduler_.idle()) step();
    EXPECT_EQ(pool_.used_pages(), 0);
  }

  bool ended(RequestId id) const { return outcomes_.contains(id); }
  // The tokens of single events are those of the last one.
  const Outcome& outcome(RequestId id) {
    EXPECT_EQ(outcomes_.at(id).generation.tokens, tokens_[id]);
    return outcomes_.at(id);
  }
  const Tokens& tokens(RequestId id) { return outcome(id).generation.tokens; }
  Reason reason(RequestId id) { return outcome(id).generation.reason; }

 private:
  model::Workspace workspace_;
  Pool pool_;
  Tree tree_;
  Scheduler scheduler_;
  std::map<RequestId, Tokens> tokens_;
  std::map<RequestId, Outcome> outcomes_;
};

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() : decoder_(reference::toy_decoder()) {}

  Tokens prompt(Index length, unsigned seed) const {
    return trial::random_tokens(decoder_.config(), length, seed);
  }
  // What the request gives in a run alone.
  Tokens alone(const Request& request) const {
    kv::Contiguous<codec::F32> store(decoder_.config().geometry(), 200);
    model::Workspace workspace(decoder_.config(), {.rows = 200});
    return generate(decoder_, store, workspace, request.prompt, request.options).tokens;
  }

  model::Decoder decoder_;
  model::Limits limits_ = {.rows = 32, .logit_rows = 16, .sequences = 4};
};

}  // namespace trial_requests

}  // namespace decant::decoding
