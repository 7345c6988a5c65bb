// bench/decoding/scheduler_bench.cpp - what batches, draft tokens and a scheduler cost and save.
//
// batch: tokens/s of many sequences that decode in one step, and how many times that of one
// (times). drafts: tokens/s with n-gram drafts over a text that repeats itself but for every
// sixteenth token, relative to none (times). entering: the time per token of four texts while a
// prompt of 4,096 tokens enters, some rows a step, and around that (times is the quotient).
// overhead: what a scheduler's step takes beyond the model's, as a fraction of it, with sampling
// and without, while a thousand requests wait.
#include <decant/codec/plain.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/profile.hpp>

#include "peers/random_model.hpp"
#include "support/bounds.hpp"
#include "support/cached.hpp"
#include "support/check.hpp"
#include "support/shapes.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using decoding::Request;

std::vector<Token> tokens_from(Index first, Index count) {
  std::vector<Token> tokens;
  for (Index i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Token>((first + i) * 7919 % 32000));
  }
  return tokens;
}

// One model at a time: they are large.
const model::Decoder& decoder_of(const model::Config& config, codec::Type type) {
  return *bench::cached(std::pair(config.hidden_size, type), [&] {
    return std::make_unique<model::Decoder>(config, bench::random_weights(config, type));
  });
}

// A scheduler and what it borrows.
class House {
 public:
  House(const model::Decoder& decoder, Index tokens, const model::Limits& limits,
        Executor& executor, Index prompt_rows = 512)
      : workspace_(decoder.config(), limits, executor),
        pool_(decoder.config().geometry(), ceil_div(tokens, 64), 64),
        tree_(pool_),
        scheduler_(decoder, workspace_, pool_, {.prefill_token_budget = prompt_rows}, &tree_) {}

  decoding::Scheduler& scheduler() { return scheduler_; }
  model::Workspace& workspace() { return workspace_; }

  decoding::RequestId submit(Index seed, Index prompt, Index new_tokens) {
    return scheduler_.submit(
        {.prompt = tokens_from(seed * 1000, prompt),
         .options = {.max_new_tokens = new_tokens, .sampler = {.temperature = 0}}});
  }

  // The seconds of a step, and what ended in it.
  double step() {
    const decoding::Stopwatch watch;
    for (const decoding::Event& event : scheduler_.step()) {
      if (event.outcome) ended_.push_back(event.request);
    }
    return watch.seconds();
  }
  bool ended(decoding::RequestId id) const { return std::ranges::count(ended_, id) > 0; }

 private:
  model::Workspace workspace_;
  kv::PagePool<BF16> pool_;
  kv::PrefixTree<BF16> tree_;
  decoding::Scheduler scheduler_;
  std::vector<decoding::RequestId> ended_;
};

double mean(const std::vector<double>& seconds) {
  double sum = 0;
  for (double each : seconds) sum += each;
  return sum / static_cast<double>(seconds.size());
}

double median(std::vector<double> seconds) {
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

// The seconds of one of `steps` decoding steps of so many sequences.
double decoding_step(const model::Decoder& decoder, Index sequences, Index steps,
                     Executor& executor) {
  House house(decoder, 128 * sequences, {.rows = 64, .logit_rows = 16, .sequences = 16}, executor);
  for (Index n = 0; n < sequences; ++n) house.submit(n, 4, steps + 2);
  house.step();
  std::vector<double> seconds;
  for (Index n = 0; n < steps; ++n) seconds.push_back(house.step());
  bench::require(house.scheduler().running() == sequences, "somebody ended");
  return median(seconds);
}

void batch(benchmark::State& state) {
  const model::Decoder& decoder =
      decoder_of(bench::config_1b(), static_cast<codec::Type>(state.range(0)));
  state.SetLabel(std::string(codec::name(static_cast<codec::Type>(state.range(0)))));
  Executor& executor = bench::workers(state.range(2));
  const Index sequences = state.range(1);
  for (auto _ : state) {
    const double one = decoding_step(decoder, 1, 8, executor);
    const double many = decoding_step(decoder, sequences, 8, executor);
    state.SetIterationTime(many);
    state.counters["tokens_per_s"] = static_cast<double>(sequences) / many;
    state.counters["alone_per_s"] = 1 / one;
    state.counters["times"] = static_cast<double>(sequences) * one / many;
  }
}
BENCHMARK(batch)
    ->ArgNames({"", "sequences", "threads"})
    ->ArgsProduct({{static_cast<int>(codec::Type::bf16), static_cast<int>(codec::Type::q8_0)},
                   {4, 16},
                   {1, 2}})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// Allows one next token: that of a text with a period of 48 tokens, in which every sixteenth token
// is different each time.
class Script {
 public:
  explicit Script(Index vocabulary) : mask_(static_cast<std::size_t>((vocabulary + 31) / 32)) {}

  static Token at(Index place) {
    const Index turn = place % 16 == 15 ? place : place % 48;
    return static_cast<Token>((turn * 7919 + 13) % 30000);
  }
  std::span<const std::uint32_t> allow(std::size_t text) {
    std::ranges::fill(mask_, 0u);
    const auto token = static_cast<std::uint32_t>(at(static_cast<Index>(text)));
    mask_[token / 32] = 1u << (token % 32);
    return mask_;
  }

 private:
  std::vector<std::uint32_t> mask_;
};

void drafts(benchmark::State& state) {
  const model::Decoder& decoder =
      decoder_of(bench::config_135m(), static_cast<codec::Type>(state.range(0)));
  state.SetLabel(std::string(codec::name(static_cast<codec::Type>(state.range(0)))));
  model::Workspace workspace(decoder.config(), {.rows = 128, .logit_rows = 9},
                             bench::workers(state.range(1)));
  Script script(decoder.config().vocabulary);
  std::vector<Token> prompt;  // the text from its beginning
  for (Index place = 0; place < 96; ++place) prompt.push_back(Script::at(place));
  decoding::GenerateOptions options = {.max_new_tokens = 192};
  options.allowed = [&](std::span<const Token> text) { return script.allow(96 + text.size()); };
  const auto run = [&](auto drafter) {
    kv::Contiguous<BF16> store(decoder.config().geometry(), 512);
    return decoding::generate(
        decoder, store, workspace, prompt, options, [](Token) { return true; }, drafter);
  };
  for (auto _ : state) {
    const decoding::Generation plain = run(decoding::NoDrafts{});
    const decoding::Generation drafted = run(decoding::NgramDrafter{});
    bench::require(plain.tokens == drafted.tokens, "draft tokens changed a token");
    const double seconds = drafted.statistics.time_per_output_token();
    state.SetIterationTime(seconds);
    state.counters["tokens_per_s"] = 1 / seconds;
    state.counters["accepted"] = static_cast<double>(drafted.statistics.accepted_tokens) /
                                 static_cast<double>(drafted.statistics.proposed_tokens);
    state.counters["times"] = plain.statistics.time_per_output_token() / seconds;
  }
}
BENCHMARK(drafts)
    ->ArgNames({"", "threads"})
    ->ArgsProduct({{static_cast<int>(codec::Type::bf16), static_cast<int>(codec::Type::q8_0)},
                   {1, 2}})
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

void entering(benchmark::State& state) {
  const bool large = state.range(1) == 1000;
  const model::Decoder& decoder =
      decoder_of(large ? bench::config_1b() : bench::config_135m(), codec::Type::q8_0);
  for (auto _ : state) {
    House house(decoder, 16384, {.rows = 512, .logit_rows = 8, .sequences = 8}, bench::workers(1),
                state.range(0));
    for (Index n = 0; n < 4; ++n) house.submit(n, 16, 2000);
    house.step();
    std::vector<double> idle, busy;
    for (int n = 0; n < 10; ++n) idle.push_back(house.step());
    const auto id = house.submit(9, 4096, 1);
    while (!house.ended(id)) busy.push_back(house.step());
    for (int n = 0; n < 10; ++n) idle.push_back(house.step());  // whose texts are longer now
    bench::require(house.scheduler().running() == 4, "somebody ended");
    const double alone = mean(idle), beside = mean(busy);
    state.SetIterationTime(beside);
    state.counters["alone_ms"] = alone * 1e3;
    state.counters["times"] = beside / alone;
    state.counters["first_token_s"] = beside * static_cast<double>(busy.size());
  }
}
BENCHMARK(entering)
    ->ArgNames({"rows", "millions"})
    ->Args({4, 135})
    ->Args({8, 135})
    ->Args({512, 135})
    ->Args({8, 1000})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void overhead(benchmark::State& state) {
  const model::Decoder& decoder = decoder_of(bench::config_135m(), codec::Type::q8_0);
  for (auto _ : state) {
    House house(decoder, 4096, {.rows = 64, .logit_rows = 16, .sequences = 16}, bench::workers(1));
    model::Profile profile;
    house.workspace().set_profile(&profile);
    for (Index n = 0; n < 1016; ++n) house.submit(n, 16, 64);
    for (int n = 0; n < 6; ++n) house.step();
    profile = {};
    const double stepped = house.scheduler().statistics().step_seconds;
    double seconds = 0;
    for (int n = 0; n < 40; ++n) seconds += house.step();
    const double step = house.scheduler().statistics().step_seconds - stepped;
    const double sampling = profile[model::Operation::sampling].seconds;
    state.SetIterationTime(seconds / 40);
    state.counters["beside_step"] = (seconds - step) / step;
    state.counters["without_sampling"] = (seconds - step - sampling) / step;
  }
}
BENCHMARK(overhead)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
