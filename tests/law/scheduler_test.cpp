// tests/law/scheduler_test.cpp - a scheduler gives every request the tokens and logits that it
// gives alone, whatever other requests there are.
#include "law/models.hpp"

#include <decant/codec/scaled.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/scheduler.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using decoding::Generation;
using decoding::Request;

// An integer in [0, count).
template <class Number = Index>
Number below(std::mt19937& random, unsigned count) {
  return static_cast<Number>(random() % count);
}

// Prompts with common prefixes of any length, each with an end of its own.
std::vector<Token> random_prompt(const model::Config& config, std::mt19937& random) {
  std::vector<Token> prompt = trial::random_tokens(config, 90, below<unsigned>(random, 3));
  prompt.resize(below<std::size_t>(random, 90));
  const auto own =
      trial::random_tokens(config, 1 + below(random, 30), below<unsigned>(random, 1000));
  prompt.insert(prompt.end(), own.begin(), own.end());
  return prompt;
}

// A drafter that counts how often it proposed several branches.
auto counted(decltype(Request::drafter) drafter, Index& branched) {
  return [drafter = std::move(drafter), &branched](const decoding::History& history, Index most,
                                                   decoding::Branches& branches) {
    drafter(history, most, branches);
    branched += branches.size() > 1;
  };
}

// The text of tokens, in letters of which stop strings are made.
std::string spell(std::optional<Token> token) {
  return token ? std::string(1 + static_cast<std::size_t>(*token % 2), "abcd"[*token % 4]) : "";
}

// Makes one token the more probable, the longer ago it occurred.
void favour_old(const decoding::History& history, std::span<float> logits) {
  for (std::size_t at = 0; at < history.tokens.size(); ++at) {
    logits[static_cast<std::size_t>(history.tokens[at])] += 0.5f / static_cast<float>(1 + at);
  }
}

using Adapters = std::vector<std::shared_ptr<const model::Adapter>>;

Request random_request(const model::Config& config, const Adapters& adapters, std::mt19937& random,
                       Index& branched) {
  Request request = {.prompt = random_prompt(config, random), .priority = below<int>(random, 3)};
  decoding::GenerateOptions& options = request.options;
  options.max_new_tokens = below(random, 24);
  options.sequence = random();
  options.log_probabilities = config.vocabulary;  // of all tokens: what the logits were
  options.stop.stop_tokens = {below<Token>(random, 41)};
  options.sampler.seed = random();
  options.sampler.temperature = 0.3 * below<double>(random, 5);
  options.sampler.penalties.repetition = below(random, 2) == 0 ? 1.0 : 1.3;
  if (below(random, 4) == 0) options.adapter = adapters[below<std::size_t>(random, 2)];
  if (below(random, 4) == 0) options.logits_processors.push_back(favour_old);
  if (below(random, 4) == 0) options.sampler.xtc = 0.5;
  if (below(random, 4) == 0) options.sampler.mirostat = 2.0;
  if (below(random, 2) == 0) {
    options.text = spell;
    for (auto count = below(random, 3); count > 0; --count) {
      options.stop.stop_strings.push_back(spell(below<Token>(random, 41)) +
                                          spell(below<Token>(random, 41)));
    }
    options.stop.min_new_tokens = below(random, 6);
  }
  const Index drafts = below(random, 4);
  if (drafts == 0) request.drafter = decoding::drafts_of(decoding::NgramDrafter{.shortest = 1});
  if (drafts == 1) {
    request.drafter = counted(decoding::drafts_of(decoding::TreeNgramDrafter()), branched);
  }
  return request;
}

template <codec::Codec C>
Generation alone(const model::Decoder& decoder, const Request& request) {
  kv::Contiguous<C> store(decoder.config().geometry(), 200);
  model::Workspace workspace(decoder.config(), {.rows = 200});
  return generate(decoder, store, workspace, request.prompt, request.options);
}

// Expects `part` to be a prefix of `whole`, bit for bit, and all of it unless it was cut short.
void expect_same(const Generation& whole, const Generation& part, bool cut) {
  ASSERT_LE(part.tokens.size(), whole.tokens.size());
  ASSERT_EQ(part.log_probabilities.size(), part.tokens.size());
  for (std::size_t at = 0; at < part.tokens.size(); ++at) {
    EXPECT_EQ(part.tokens[at], whole.tokens[at]);
    const auto& expected = whole.log_probabilities[at].top;
    const auto& actual = part.log_probabilities[at].top;
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t n = 0; n < expected.size(); ++n) {
      EXPECT_EQ(actual[n].token, expected[n].token);
      EXPECT_EQ(std::memcmp(&actual[n].value, &expected[n].value, sizeof(double)), 0);
    }
  }
  if (cut) return;
  EXPECT_EQ(part.tokens.size(), whole.tokens.size());
  EXPECT_EQ(part.reason, whole.reason);
  EXPECT_EQ(part.ended_by, whole.ended_by);
  EXPECT_EQ(part.text, whole.text);
  EXPECT_EQ(part.stop_string, whole.stop_string);
}

struct Results {
  std::map<decoding::RequestId, Generation> generations;
  decoding::SchedulerStatistics statistics;
  kv::PrefixStatistics prefixes;
  Index accepted = 0;
};

// Requests that arrive at random steps, of which some are cancelled and some preempted.
template <codec::Codec C>
Results run(const model::Decoder& decoder, const std::vector<Request>& requests,
            std::mt19937& random) {
  const model::Config& config = decoder.config();
  model::Workspace workspace(config, {.rows = 40, .logit_rows = 12, .sequences = 6});
  kv::PagePool<C> pool(config.geometry(), 14, 16);
  kv::PrefixTree<C> tree(pool, 8);
  decoding::Scheduler scheduler(decoder, workspace, pool,
                                {.prefill_token_budget = 30, .ageing_steps = 40}, &tree);
  Results results;
  for (std::size_t next = 0; next < requests.size() || !scheduler.idle();) {
    while (next < requests.size() && below(random, 3) == 0) {
      EXPECT_EQ(scheduler.submit(requests[next]), next + 1);
      next += 1;
    }
    // One that runs, waits or has ended.
    const auto someone = [&] {
      return results.generations.size() + below<std::size_t>(random, 10);
    };
    while (below(random, 3) > 0) scheduler.preempt(someone());
    if (below(random, 40) == 0) scheduler.cancel(someone());
    for (decoding::Event& event : scheduler.step()) {
      if (!event.outcome) continue;
      results.accepted += event.outcome->generation.statistics.accepted_tokens;
      results.generations.emplace(event.request, std::move(event.outcome->generation));
    }
    EXPECT_EQ(pool.free_pages() + pool.used_pages() + pool.cached_pages(), pool.total_pages());
  }
  EXPECT_EQ(pool.used_pages(), 0);
  results.statistics = scheduler.statistics();
  results.prefixes = tree.statistics();
  return results;
}

template <class C>
class SchedulerLaw : public testing::Test {};
using ScheduledCodecs = testing::Types<codec::F32, codec::BF16, codec::Int8>;
TYPED_TEST_SUITE(SchedulerLaw, ScheduledCodecs);

TYPED_TEST(SchedulerLaw, GivesEveryRequestTheBitsOfItsRunAlone) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  std::mt19937 random(11);
  const Adapters adapters = {
      std::make_shared<model::Adapter>(trial::adapter_of(decoder.config(), 3)),
      std::make_shared<model::Adapter>(trial::adapter_of(decoder.config(), 13))};
  std::vector<Request> requests;
  Index branched = 0;
  for (int n = 0; n < (trial::kSlowBuild ? 60 : 200); ++n) {
    requests.push_back(random_request(decoder.config(), adapters, random, branched));
  }
  const Results results = run<TypeParam>(decoder, requests, random);
  ASSERT_EQ(results.generations.size(), requests.size());
  Index cut = 0, stopped = 0;
  for (const auto& [id, generation] : results.generations) {
    const bool cancelled = generation.reason == decoding::Reason::cancelled;
    cut += cancelled;
    stopped += generation.reason == decoding::Reason::stop_string;
    SCOPED_TRACE(id);
    expect_same(alone<TypeParam>(decoder, requests[id - 1]), generation, cancelled);
    if (this->HasFatalFailure()) return;
  }
  // Drafts, preemption, cached prefixes, stop strings and cancellation all occurred.
  EXPECT_GT(branched, std::ssize(requests) / 4);
  EXPECT_GT(results.statistics.preemptions, std::ssize(requests) / 4);
  EXPECT_GT(results.prefixes.hits, std::ssize(requests) / 4);
  EXPECT_GT(results.accepted, 0);
  EXPECT_GT(stopped, std::ssize(requests) / 20);
  EXPECT_GT(cut, 0);
  EXPECT_EQ(results.statistics.failed, 0);
}

}  // namespace
