// tests/decoding/stop_strings_test.cpp - stop strings as an option of every kind of run: what is
// shown, what the answer is, and what the store holds then.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/beam.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/samples.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/decoding/session.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace decant::decoding {
namespace {

using F32 = codec::F32;
using Tokens = std::vector<Token>;
using Strings = std::vector<std::string>;

// The text of a token, of the letters a, b and c alone, so that stop strings overlap in every way.
std::string spelling(Token token) {
  constexpr std::array<std::string_view, 12> kTexts = {"a",  "b",  "c",  "ab", "",    "ba",
                                                       "bc", "aa", "ca", "cb", "abc", "ac"};
  return std::string(kTexts[static_cast<std::size_t>(token) % kTexts.size()]);
}
std::string spell(std::optional<Token> token) { return token ? spelling(*token) : ""; }
std::string spell(const Tokens& tokens) {
  std::string text;
  for (Token token : tokens) text += spelling(token);
  return text;
}

// What a sink gets.
struct Received {
  Tokens tokens;
  std::string text;
  std::vector<LogProbability> taken;

  bool add(const NewToken& next) {
    tokens.push_back(next);
    text += next.text;
    if (next.log_probabilities) taken.push_back(next.log_probabilities->taken);
    return true;
  }
};

// The expected answer: a run without stop strings, cut where the first one begins in its whole
// text.
Generation cut(const Generation& whole, const StopOptions& stop) {
  const auto at_least = static_cast<std::size_t>(stop.min_new_tokens);
  std::string before;
  for (std::size_t at = 0; at < std::min(at_least, whole.tokens.size()); ++at) {
    before += spelling(whole.tokens[at]);
  }
  const std::string text = spell(whole.tokens);
  StopText stops(stop.stop_strings, stop.include_stop_string);
  Generation answer;
  answer.text = before + stops.push(std::string_view(text).substr(before.size()));
  answer.text += stops.finish();
  answer.reason = stops.stopped() ? Reason::stop_string : whole.reason;
  answer.stop_string = stops.stop();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < whole.tokens.size(); ++at) {
    if (stops.stopped() && begin >= answer.text.size() && at >= at_least) break;
    answer.tokens.push_back(whole.tokens[at]);
    answer.log_probabilities.push_back(whole.log_probabilities[at]);
    begin += spelling(whole.tokens[at]).size();
  }
  return answer;
}

void expect_same(const Generation& answer, const Generation& expected) {
  EXPECT_EQ(answer.tokens, expected.tokens);
  EXPECT_EQ(answer.text, expected.text);
  EXPECT_EQ(answer.reason, expected.reason) << name(answer.reason);
  EXPECT_EQ(answer.stop_string, expected.stop_string);
  EXPECT_EQ(answer.statistics.generated_tokens, std::ssize(expected.tokens));
  ASSERT_EQ(answer.log_probabilities.size(), expected.log_probabilities.size());
  for (std::size_t at = 0; at < answer.log_probabilities.size(); ++at) {
    EXPECT_EQ(answer.log_probabilities[at].taken, expected.log_probabilities[at].taken);
  }
}

void expect_shown(const Received& shown, const Generation& answer) {
  EXPECT_EQ(shown.tokens, answer.tokens);
  EXPECT_EQ(shown.text, answer.text);
  ASSERT_EQ(shown.taken.size(), answer.log_probabilities.size());
  for (std::size_t at = 0; at < shown.taken.size(); ++at) {
    EXPECT_EQ(shown.taken[at], answer.log_probabilities[at].taken);
  }
}

class StopStrings : public testing::Test {
 protected:
  GenerateOptions options(const Strings& strings, std::uint64_t seed = 1) const {
    return {.max_new_tokens = 24,
            .stop = {.stop_strings = strings},
            .sampler = {.temperature = 1.0, .seed = seed},
            .log_probabilities = 0,
            .text = [](std::optional<Token> token) { return spell(token); }};
  }
  // One to three strings of one to five letters.
  Strings random_strings(std::mt19937& random) const {
    Strings strings(1 + random() % 3);
    for (std::string& string : strings) {
      for (auto length = 1 + random() % 5; length > 0; --length) string += "abc"[random() % 3];
    }
    return strings;
  }
  Generation without(GenerateOptions options) {
    options.stop.stop_strings.clear();
    kv::Contiguous<F32> store(decoder_.config().geometry(), 80);
    return generate(decoder_, store, workspace_, prompt_, options);
  }

  model::Decoder decoder_ = reference::toy_decoder();
  Tokens prompt_ = trial::random_tokens(decoder_.config(), 20, 3);
  model::Workspace workspace_{decoder_.config(), {.rows = 24, .logit_rows = 8, .sequences = 8}};
};

TEST_F(StopStrings, CutTheAnswerWhereTheFirstOneBeginsInItsText) {
  std::mt19937 random(7);
  Index stopped = 0, inside = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    GenerateOptions given = options(random_strings(random), seed);
    given.stop.min_new_tokens = static_cast<Index>(random() % 3) * 4;
    given.stop.include_stop_string = random() % 3 == 0;
    const Generation expected = cut(without(given), given.stop);
    kv::Contiguous<F32> store(decoder_.config().geometry(), 80);
    Received shown;
    NgramDrafter drafter{.shortest = 1};
    const auto sink = [&](const NewToken& next) { return shown.add(next); };
    const Generation answer =
        seed % 2 == 0 ? generate(decoder_, store, workspace_, prompt_, given, sink)
                      : generate(decoder_, store, workspace_, prompt_, given, sink, drafter);
    expect_same(answer, expected);
    expect_shown(shown, answer);
    const Index held = std::ssize(prompt_) + std::ssize(answer.tokens);
    EXPECT_LE(store.end(), held);
    EXPECT_GE(store.end(), held - 1);
    stopped += answer.reason == Reason::stop_string;
    inside += spell(answer.tokens) != answer.text;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(stopped, 150);  // else the cases show little
  EXPECT_LT(stopped, 295);
  EXPECT_GT(inside, 20);
}

// A token is shown as soon as none of its text can be part of a stop string.
TEST_F(StopStrings, HoldBackOnlyWhatMayBecomeOne) {
  const model::Decoder reciting =
      reference::reciting_decoder(Tokens{2, 3, 0, 1, 0, 0, 1, 2, 9}, 12);
  kv::Contiguous<F32> store(reciting.config().geometry(), 9);
  model::Workspace workspace(reciting.config(), {.rows = 4});
  std::vector<std::size_t> shown_after;  // tokens, when the model is asked for the next one
  std::size_t shown = 0;
  GenerateOptions given = options({"abc"});
  given.sampler = {};
  given.logits_processors = {
      [&](const History&, std::span<float>) { shown_after.push_back(shown); }};
  const Generation answer =
      generate(reciting, store, workspace, Tokens{2, 3}, given, [&](Token) { return ++shown > 0; });
  EXPECT_EQ(answer.text, "aba");  // of a b a a b c
  EXPECT_EQ(answer.tokens, (Tokens{0, 1, 0}));
  EXPECT_EQ(answer.stop_string, "abc");
  EXPECT_EQ(shown_after, (std::vector<std::size_t>{0, 0, 0, 2, 3, 3}));
}

TEST_F(StopStrings, HoldBackNothingAtAnyOtherEnd) {
  const model::Decoder reciting = reference::reciting_decoder(Tokens{2, 3, 0, 1, 11, 0, 1, 9}, 12);
  const auto run = [&](GenerateOptions given, Index room = 8) {
    kv::Contiguous<F32> store(reciting.config().geometry(), room);
    model::Workspace workspace(reciting.config(), {.rows = 4});
    given.sampler = {};
    Received shown;
    Generation answer = generate(reciting, store, workspace, Tokens{2, 3}, given,
                                 [&](const NewToken& next) { return shown.add(next); });
    expect_shown(shown, answer);
    EXPECT_LE(store.end(), 2 + std::ssize(answer.tokens));
    return answer;
  };
  GenerateOptions given = options({"abacabc"});  // of a b ac a b ...
  given.max_new_tokens = 3;
  Generation answer = run(given);
  EXPECT_EQ(answer.tokens, (Tokens{0, 1, 11}));
  EXPECT_EQ(answer.text, "abac");
  EXPECT_EQ(answer.reason, Reason::length);

  given.max_new_tokens = 24;
  given.stop.end_tokens = {11};
  answer = run(given);
  EXPECT_EQ(answer.tokens, (Tokens{0, 1}));
  EXPECT_EQ(answer.reason, Reason::end_token);
  EXPECT_EQ(answer.ended_by, Token{11});

  // While text is held back for a long stop string, a shorter one is found in it.
  given.stop.stop_strings = {"abaca", "b"};
  answer = run(given);
  EXPECT_EQ(answer.text, "a");
  EXPECT_EQ(answer.reason, Reason::stop_string);
  EXPECT_EQ(answer.stop_string, "b");
  EXPECT_EQ(answer.ended_by, std::nullopt);

  given = options({"abacabc"});
  answer = run(given, 5);
  EXPECT_EQ(answer.tokens, (Tokens{0, 1, 11, 0}));
  EXPECT_EQ(answer.reason, Reason::cache_full);
}

TEST_F(StopStrings, LetASinkEndTheAnswerAfterItsToken) {
  const model::Decoder reciting = reference::reciting_decoder(Tokens{2, 3, 0, 1, 0, 0, 2, 9}, 12);
  kv::Contiguous<F32> store(reciting.config().geometry(), 9);
  model::Workspace workspace(reciting.config(), {.rows = 4});
  GenerateOptions given = options({"abab"});  // of a b a, whose last a ends no stop string
  given.sampler = {};
  Received shown;
  const Generation answer = generate(reciting, store, workspace, Tokens{2, 3}, given,
                                     [&](const NewToken& next) { return shown.add(next), false; });
  EXPECT_EQ(answer.reason, Reason::sink);
  EXPECT_EQ(answer.tokens, (Tokens{0}));
  EXPECT_EQ(answer.text, "a");
  EXPECT_EQ(answer.log_probabilities.size(), 1u);
  EXPECT_EQ(store.end(), 2);
  expect_shown(shown, answer);
}

TEST_F(StopStrings, OfSamplesCutEachAlone) {
  kv::PagePool<F32> pool(decoder_.config().geometry(), 40, 16);
  std::mt19937 random(5);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const GenerateOptions given = options(random_strings(random), seed);
    kv::Paged<F32> store(pool);
    std::vector<Received> shown(6);
    const auto answers = generate_samples(decoder_, store, workspace_, prompt_, given, 6,
                                          [&](Index at, const NewToken& next) {
                                            return shown[static_cast<std::size_t>(at)].add(next);
                                          });
    for (std::size_t at = 0; at < answers.size(); ++at) {
      GenerateOptions own = given;
      own.sequence = at;
      expect_same(answers[at], cut(without(own), own.stop));
      expect_shown(shown[at], answers[at]);
    }
  }
}

TEST_F(StopStrings, OfRequestsCutEachAlone) {
  kv::PagePool<F32> pool(decoder_.config().geometry(), 12, 16);
  kv::PrefixTree<F32> tree(pool);
  Scheduler scheduler(decoder_, workspace_, pool, {}, &tree);
  std::mt19937 random(6);
  std::vector<Request> requests;
  std::vector<Received> shown(40), heard(40);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Request request{.prompt = prompt_, .options = options(random_strings(random), seed)};
    request.prompt.resize(10 + random() % 11);
    if (seed % 2 == 0) request.drafter = drafts_of(NgramDrafter{.shortest = 1});
    request.sink = [&, seed](const NewToken& next) { return heard[seed].add(next); };
    requests.push_back(request);
    scheduler.submit(request);
  }
  Index stopped = 0, generated = 0;
  while (!scheduler.idle()) {
    scheduler.preempt(1 + random() % 40);
    for (Event& event : scheduler.step()) {
      const auto at = static_cast<std::size_t>(event.request - 1);
      for (const NewToken& next : event.tokens) shown[at].add(next);
      if (!event.outcome) continue;
      const Generation& answer = event.outcome->generation;
      prompt_ = requests[at].prompt;
      expect_same(answer, cut(without(requests[at].options), requests[at].options.stop));
      expect_shown(shown[at], answer);
      expect_shown(heard[at], answer);
      stopped += answer.reason == Reason::stop_string;
      generated += std::ssize(answer.tokens);
    }
  }
  EXPECT_GT(stopped, 20);
  EXPECT_GT(scheduler.statistics().preemptions, 0);
  EXPECT_EQ(scheduler.statistics().generated_tokens, generated);
  EXPECT_EQ(pool.used_pages(), 0);
}

TEST_F(StopStrings, EndBeams) {
  kv::PagePool<F32> pool(decoder_.config().geometry(), 60, 16);
  const auto search = [&](const BeamOptions& given) {
    kv::Paged<F32> store(pool);
    return beam_search(decoder_, store, workspace_, prompt_, given);
  };
  BeamOptions given = {.beams = 4, .answers = 4, .max_new_tokens = 12};
  given.text = [](std::optional<Token> token) { return spell(token); };
  for (const BeamAnswer& answer : search(given)) {
    EXPECT_FALSE(answer.ended);
    EXPECT_EQ(answer.text, spell(answer.tokens));
  }
  const std::string stop = search(given).front().text.substr(2, 3);
  given.stop_strings = {stop};
  bool some = false;
  for (const BeamAnswer& answer : search(given)) {
    EXPECT_EQ(answer.text.find(stop), answer.text.npos);
    EXPECT_TRUE(spell(answer.tokens).starts_with(answer.text));
    some = some || answer.ended;
  }
  EXPECT_TRUE(some);
}

// The next turn begins after the answer, without the stop string: what was cut is computed anew.
TEST_F(StopStrings, LeaveASessionWithWhatWasShown) {
  const model::Decoder decoder = reference::toy_decoder({6, 6});
  model::Workspace workspace(decoder.config(), {.rows = 24});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    GenerateOptions given = options({}, seed);
    given.max_new_tokens = 50;
    kv::Contiguous<F32> first(decoder.config().geometry(), 80);
    const std::string text = generate(decoder, first, workspace, prompt_, given).text;
    given.stop.stop_strings = {text.substr(6, 60)};  // of more tokens than the ring can go back
    Session session(kv::Contiguous<F32>(decoder.config().geometry(), 80));
    Session ring(kv::Ring<F32>(decoder.config().geometry(), 7, 1));
    const auto sink = [](Token) { return true; };
    const Tokens tokens = generate(decoder, session, workspace, prompt_, given, sink).tokens;
    EXPECT_EQ(generate(decoder, ring, workspace, prompt_, given, sink).tokens, tokens);
    Tokens next = prompt_;
    next.insert(next.end(), tokens.begin(), tokens.end());
    EXPECT_LE(std::ssize(session.tokens()), std::ssize(next));
    EXPECT_TRUE(
        std::ranges::equal(session.tokens(), std::span(next).first(session.tokens().size())));
    next.push_back(5);
    kv::Contiguous<F32> fresh(decoder.config().geometry(), 80);
    const Tokens expected = generate(decoder, fresh, workspace, next, given).tokens;
    EXPECT_EQ(generate(decoder, session, workspace, next, given).tokens, expected);
    EXPECT_EQ(generate(decoder, ring, workspace, next, given).tokens, expected);
  }
}

TEST_F(StopStrings, LeaveNoTokenThatWasHeldBackInASessionWhoseRunThrows) {
  Session session(kv::Contiguous<F32>(decoder_.config().geometry(), 80));
  GenerateOptions given = options({std::string(40, 'a')});
  given.text = [](std::optional<Token>) { return "a"; };
  given.logits_processors = {[](const History& history, std::span<float>) {
    if (std::ssize(history.tokens) == 30) throw std::runtime_error("enough");
  }};
  EXPECT_THROW(generate(decoder_, session, workspace_, prompt_, given), std::runtime_error);
  EXPECT_TRUE(std::ranges::equal(session.tokens(), prompt_));
  EXPECT_EQ(session.store().end(), std::ssize(prompt_));
}

TEST_F(StopStrings, AreRefusedWithoutATextAndWhenEmpty) {
  kv::Contiguous<F32> store(decoder_.config().geometry(), 80);
  GenerateOptions given = options({"a"});
  given.text = {};
  EXPECT_THROW(generate(decoder_, store, workspace_, prompt_, given), std::invalid_argument);
  EXPECT_THROW(generate(decoder_, store, workspace_, prompt_, options({"a", ""})),
               std::invalid_argument);
  EXPECT_EQ(store.end(), 0);
}

}  // namespace
}  // namespace decant::decoding
