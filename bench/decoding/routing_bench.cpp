// bench/decoding/routing_bench.cpp - where should the prompts of many chats go?
//
//   build/release/bench/bench_decoding_routing
//
// A simulation, the same in every run: chats begin with one of some system prompts, few of which
// are in most of them (Zipf), and every turn extends the last. Replicas serve in order, a token of
// work per unit of time, with a prefix cache in a kv::PrefixTree. `load` is the arriving work in
// percent of what all replicas can do without a cache. By policy:
//
//   hit_rate     the fraction of prompt tokens that were cached
//   balance      computed tokens of the replica with the most of them, over the mean
//   first_token  time from a prompt's arrival until it is computed, the mean; and the 99th
//                percentile (first_token_99)
//
// decision: the time of one route() over 8 replicas that cache 512 pages each.
#include <decant/codec/scaled.hpp>
#include <decant/core/random.hpp>
#include <decant/decoding/router.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>

#include "support/cached.hpp"
#include "support/check.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace {

using namespace decant;
using Cell = codec::Int8;

constexpr Index kPage = 64, kPages = 512;  // that a replica caches at most
constexpr Index kSystems = 32, kChats = 2000;
constexpr Index kReport = 8;  // requests of a replica between two summaries

// Draws of one kind, one after another.
class Draws {
 public:
  explicit Draws(std::uint64_t kind) : kind_(kind) {}
  double number() { return uniform(5, kind_, at_++); }
  Index between(Index low, Index high) {
    return low + static_cast<Index>(number() * static_cast<double>(high - low + 1));
  }

 private:
  std::uint64_t kind_;
  Position at_ = 0;
};

// A turn of a chat: its prompt is all that was said before, and some more.
struct Request {
  double time = 0;  // of arrival, from 0 to 1
  Index chat = 0;
  Index system = 0;
  Index prompt = 0;  // tokens
  Index answer = 0;
};

struct Trace {
  std::vector<Index> systems;  // tokens of each
  std::vector<Request> requests;
  double work = 0;  // tokens of all prompts and answers

  // A prompt and its answer.
  std::vector<Token> text(const Request& request) const {
    const Index shared = systems[static_cast<std::size_t>(request.system)];
    std::vector<Token> tokens;
    for (Position at = 0; at < request.prompt + request.answer; ++at) {
      const Index owner = at < shared ? request.system : kSystems + request.chat;
      const double draw = uniform(6, static_cast<std::uint64_t>(owner), at);
      tokens.push_back(static_cast<Token>(draw * 32'000));
    }
    return tokens;
  }
};

// System prompt k is drawn in proportion to 1 / k.
Index zipf(double draw) {
  double all = 0, sum = 0;
  for (Index k = 1; k <= kSystems; ++k) all += 1 / static_cast<double>(k);
  Index k = 1;
  for (; k < kSystems && (sum += 1 / static_cast<double>(k)) < draw * all; ++k) continue;
  return k - 1;
}

Trace make_trace() {
  Draws draws(0);
  Trace trace;
  for (Index k = 0; k < kSystems; ++k) trace.systems.push_back(draws.between(200, 1800));
  for (Index chat = 0; chat < kChats; ++chat) {
    Request turn = {.time = draws.number(), .chat = chat, .system = zipf(draws.number())};
    turn.prompt = trace.systems[static_cast<std::size_t>(turn.system)];
    for (Index turns = draws.between(1, 8); turns > 0; --turns) {
      turn.prompt += turn.answer + draws.between(20, 220);
      turn.answer = draws.between(50, 350);
      trace.requests.push_back(turn);
      trace.work += static_cast<double>(turn.prompt + turn.answer);
      turn.time -= 0.02 * std::log(1 - draws.number());  // the time of the user
    }
  }
  std::ranges::stable_sort(trace.requests, {}, &Request::time);
  return trace;
}

const Trace& trace() { return bench::cached(0, make_trace); }

// A replica that serves in order: when it starts a prompt, all earlier ones are cached.
class Worker {
 public:
  Worker() : pool_({1, 1, 1, 1}, kPages + 256, kPage), tree_(pool_, kPages) {}

  // Time from `now` until the prompt is computed; `view` is what a router knows of this worker.
  double serve(double now, std::span<const Token> text, Index prompt, decoding::Replica& view) {
    const auto tokens = text.first(static_cast<std::size_t>(prompt));
    kv::Paged<Cell> store = tree_.match({}, tokens);
    const Index computed = prompt - store.end();
    const Index rest = std::ssize(text) - store.end();
    store.reserve(rest);
    store.publish(rest);
    tree_.insert({}, text, store);
    const double first = std::max(now, free_) + static_cast<double>(computed);
    free_ = first + static_cast<double>(std::ssize(text) - prompt);
    view.computed_tokens += computed;
    view.prefixes.insert({}, tokens);
    if (++served_ % kReport == 0) view.prefixes = kv::PrefixSummary::of(tree_);
    return first - now;
  }

  Index waiting(double now) const { return static_cast<Index>(std::max(0.0, free_ - now)); }
  const kv::PrefixStatistics& statistics() const { return tree_.statistics(); }

 private:
  kv::PagePool<Cell> pool_;
  kv::PrefixTree<Cell> tree_;
  double free_ = 0;  // when all that was sent here is done
  Index served_ = 0;
};

// What a policy may look at.
struct Arrival {
  Index number = 0;
  Index chat = 0;
  std::span<const Token> prompt;
  std::span<const decoding::Replica> replicas;
};

struct Router {
  Index operator()(const Arrival& arrival) const {
    return decoding::route({}, arrival.prompt, arrival.replicas).replica;
  }
};
struct RoundRobin {
  Index operator()(const Arrival& arrival) const {
    return arrival.number % std::ssize(arrival.replicas);
  }
};
struct FirstPage {
  Index operator()(const Arrival& arrival) const {
    const auto hashes = kv::page_hashes({}, arrival.prompt.first(kPage), kPage);
    return static_cast<Index>(hashes[0] % arrival.replicas.size());
  }
};
struct ChatHash {
  Index operator()(const Arrival& arrival) const {
    const double draw = uniform(8, static_cast<std::uint64_t>(arrival.chat), 0);
    return static_cast<Index>(draw * static_cast<double>(arrival.replicas.size()));
  }
};

struct Outcome {
  kv::PrefixStatistics all;
  Index most_computed = 0;
  std::vector<double> first_tokens;  // times
};

template <class Policy>
Outcome simulate(Index count, double load) {
  const double duration = trace().work / (load * static_cast<double>(count));
  std::vector<std::unique_ptr<Worker>> workers;
  for (Index i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>());
  std::vector<decoding::Replica> views(workers.size(), {.prefixes = kv::PrefixSummary(kPage)});
  Outcome outcome;
  for (const Request& request : trace().requests) {
    const double now = request.time * duration;
    const std::vector<Token> text = trace().text(request);
    for (std::size_t i = 0; i < views.size(); ++i)
      views[i].waiting_tokens = workers[i]->waiting(now);
    const Arrival arrival = {std::ssize(outcome.first_tokens), request.chat,
                             std::span(text).first(static_cast<std::size_t>(request.prompt)),
                             views};
    const auto to = static_cast<std::size_t>(Policy{}(arrival));
    outcome.first_tokens.push_back(workers[to]->serve(now, text, request.prompt, views[to]));
  }
  for (const auto& worker : workers) {
    const kv::PrefixStatistics& of = worker->statistics();
    outcome.all.prompts += of.prompts;
    outcome.all.reused_tokens += of.reused_tokens;
    outcome.all.computed_tokens += of.computed_tokens;
    outcome.most_computed = std::max(outcome.most_computed, of.computed_tokens);
  }
  return outcome;
}

template <class Policy>
void policy(benchmark::State& state) {
  const Index count = state.range(0);
  Outcome outcome;
  for (auto _ : state) {
    outcome = simulate<Policy>(count, static_cast<double>(state.range(1)) / 100);
  }
  const auto reused = static_cast<double>(outcome.all.reused_tokens);
  const auto computed = static_cast<double>(outcome.all.computed_tokens);
  bench::require(outcome.all.prompts == std::ssize(trace().requests), "a prompt was lost");
  std::vector<double>& times = outcome.first_tokens;
  double sum = 0;
  for (double time : times) sum += time;
  std::ranges::sort(times);
  state.counters["hit_rate"] = reused / (reused + computed);
  state.counters["balance"] =
      static_cast<double>(outcome.most_computed) * static_cast<double>(count) / computed;
  state.counters["first_token"] = sum / static_cast<double>(times.size());
  state.counters["first_token_99"] = times[times.size() * 99 / 100];
}

void policy_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"replicas", "load"})->Iterations(1)->Unit(benchmark::kMillisecond);
  list->ArgsProduct({{4, 8}, {20, 100, 150}});
}
BENCHMARK(policy<Router>)->Name("router")->Apply(policy_cases);
BENCHMARK(policy<RoundRobin>)->Name("round_robin")->Apply(policy_cases);
BENCHMARK(policy<FirstPage>)->Name("hash_of_first_page")->Apply(policy_cases);
BENCHMARK(policy<ChatHash>)->Name("hash_of_chat")->Apply(policy_cases);

void decision(benchmark::State& state) {
  const auto tokens = [](Index first, Index count) {
    std::vector<Token> list;
    for (Index at = first; at < first + count; ++at) {
      list.push_back(static_cast<Token>(uniform(9, 0, at) * 32'000));
    }
    return list;
  };
  const std::vector<Token> prompt = tokens(0, state.range(0));
  std::vector<decoding::Replica> replicas;
  for (Index at = 0; at < 8; ++at) {
    replicas.push_back({.prefixes = kv::PrefixSummary(kPage)});
    replicas.back().prefixes.insert({}, tokens((1 + at) * 1'000'000, kPages * kPage));
  }
  replicas[5].prefixes.insert({}, prompt);
  for (auto _ : state) {
    const decoding::Route to = decoding::route({}, prompt, replicas);
    bench::require(to.replica == 5, "the prompt went elsewhere");
  }
}
BENCHMARK(decision)->ArgName("tokens")->Arg(512)->Arg(8192)->Unit(benchmark::kMicrosecond);

}  // namespace
