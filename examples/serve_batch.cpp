// serve_batch: a minimal inference engine: requests and answers are lines of JSON.
//
// You learn how requests of many users share one model: a scheduler over one pool of pages, whose
// step() is a step of all of them, and a tree that caches the prefixes of prompts. Try
//
//   printf '{"prompt": "ROMEO:"}\n{"prompt": "JULIET:", "temperature": 0}\n' | serve_batch
#include <decant/codec/type.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/json_request.hpp"
#include "support/line_queue.hpp"
#include "support/model.hpp"
#include "support/options.hpp"
#include "support/stops.hpp"
#include "support/token_text.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using files::Json;
using Event = nlohmann::ordered_json;  // as it is written

struct Options {
  std::string model = examples::default_model_folder();
  std::string input;
  codec::Type cache = codec::Type::f32;
  checkpoints::LoadOptions load;
  Index tokens = 8192, page_tokens = 16, sequences = 16, rows = 256;
  Index prompt_rows = 64;
  Index threads = examples::default_threads();
  bool timings = false, stats = false, progress = false;
};

void declare(examples::CommandLine& command, Options& options) {
  const auto number = [&](const char* name, Index& value, const char* about) {
    examples::add_number(command, name, value, about, 1, 1 << 24);
  };
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command.add_nonempty_text("--input", options.input, "requests (standard input)", "FILE");
  examples::add_type(command, "--cache-type", options.cache, "format of the KV cache (f32)");
  examples::add_load_options(command, options.load);
  number("--cache-tokens", options.tokens, "tokens that the pool holds (8192)");
  number("--page-size", options.page_tokens, "tokens of a page, a multiple of 16 (16)");
  number("--sequences", options.sequences, "requests that run at once (16)");
  number("--rows", options.rows, "tokens of a step (256)");
  number("--prompt-rows", options.prompt_rows,
         "of which of prompts, while other requests decode (64)");
  examples::add_threads(command, options.threads);
  command.add_flag("--timings", options.timings, "times in the last line of a request");
  command.add_flag("--progress", options.progress, "what runs and waits, to standard error");
  command.add_flag("--stats", options.stats, "counts and times to standard error at the end");
}

// One line of the answer.
void say(const Event& event) { std::cout << event.dump() << std::endl; }

// A request under way.
struct Answer {
  Json id;
  std::size_t shown = 0;  // bytes of its text

  void show(const std::string& piece) {
    shown += piece.size();
    if (!piece.empty()) say({{"id", id}, {"text", piece}});
  }
};

Event log_probabilities(const std::vector<decoding::LogProbabilities>& tokens,
                        const text::Tokenizer& tokenizer) {
  const auto shown = [&](const decoding::LogProbability& of) {
    const std::string bytes = tokenizer.bytes_of(of.token).value_or("");
    Event entry = {{"token", examples::valid_utf8(bytes)}, {"id", of.token}};
    entry["bytes"] = std::vector<unsigned char>(bytes.begin(), bytes.end());
    entry["logprob"] = of.value;
    return entry;
  };
  Event list = Event::array();
  for (const decoding::LogProbabilities& of_token : tokens) {
    Event entry = shown(of_token.taken);
    entry["top"] = Event::array();
    for (const decoding::LogProbability& best : of_token.top) entry["top"].push_back(shown(best));
    list.push_back(std::move(entry));
  }
  return list;
}

// A scheduler whose requests and answers are lines of JSON.
template <codec::Codec C>
class Engine {
 public:
  Engine(const Options& options, const model::Decoder& decoder, const text::Tokenizer& tokenizer,
         const checkpoints::Checkpoint& checkpoint, Executor& executor)
      : options_(options),
        tokenizer_(tokenizer),
        end_tokens_(checkpoint.end_tokens),
        begin_token_(checkpoint.begin_token),
        banned_tokens_(tokenizer.unused_ids(decoder.config().vocabulary)),
        positions_(decoder.config().max_positions),
        workspace_(
            decoder.config(),
            {.rows = options.rows, .logit_rows = options.rows, .sequences = options.sequences},
            executor),
        pool_(decoder.config().geometry(), ceil_div(options.tokens, options.page_tokens),
              options.page_tokens),
        tree_(pool_),
        scheduler_(decoder, workspace_, pool_,
                   {.max_running = std::min(options.rows, options.sequences),
                    .prefill_token_budget = options.prompt_rows},
                   &tree_) {}

  // Runs until the lines have ended and every request is answered.
  void run(const std::shared_ptr<std::istream>& in) {
    examples::LineQueue lines(in);
    decoding::Stopwatch watch;
    while (!lines.ended() || !scheduler_.idle()) {
      for (const std::string& line : lines.take(scheduler_.idle())) hear(line);
      for (const decoding::Event& event : scheduler_.step()) {
        for (const decoding::NewToken& next : event.tokens) {
          answers_.at(event.request).show(next.text);
        }
        if (event.outcome) end(event.request, *event.outcome);
      }
      expects<std::runtime_error>(std::cout.good(), "standard output is gone");
      if (options_.progress && watch.seconds() > 1) {
        watch = {};
        progress();
      }
    }
    expects<std::runtime_error>(!in->bad(), "the requests cannot be read to their end");
    if (options_.progress) progress();
    if (options_.stats) print_statistics();
  }

 private:
  void hear(const std::string& line) {
    number_ += 1;
    if (line.find_first_not_of(" \t\r") == line.npos) return;
    Json id;
    try {
      examples::JsonRequest said = examples::parse_request(line, number_, id);
      said.cancels ? cancel(id) : submit(id.is_null() ? Json(number_) : id, std::move(said));
    } catch (const std::exception& error) {
      // A line without an id is named by its number, under a key of its own: the number may be
      // another request's id.
      const bool named = !id.is_null();
      say({{named ? "id" : "line", named ? id : Json(number_)}, {"error", error.what()}});
    }
  }

  void submit(const Json& id, examples::JsonRequest said) {
    for (const auto& [request, answer] : answers_) {
      expects(answer.id != id, "the id is another's that is not yet answered");
    }
    decoding::Request& request = said.request;
    request.prompt = tokenizer_.encode(said.prompt);
    if (request.prompt.empty() && begin_token_) request.prompt.push_back(*begin_token_);
    request.options.max_new_tokens = new_tokens(std::ssize(request.prompt), said.new_tokens);
    request.options.stop.end_tokens = end_tokens_;
    examples::stop_at_special_tokens(request.options.stop, tokenizer_);
    request.options.banned_tokens = banned_tokens_;
    request.options.text = text::TextStream(tokenizer_, request.prompt);
    answers_.emplace(scheduler_.submit(std::move(request)), Answer{.id = id});
  }

  // As many new tokens as were asked for, or a hundred, or fewer if positions run out.
  Index new_tokens(Index prompt, std::optional<Index> asked) const {
    const Index room = positions_ - prompt;
    expects(room >= asked.value_or(0), "a prompt of ", examples::counted(prompt, "token"), " and ",
            asked.value_or(0), " new ones, the model was made for ", positions_);
    return asked.value_or(std::min<Index>(100, room));
  }

  void cancel(const Json& id) {
    for (const auto& [request, answer] : answers_) {
      if (answer.id != id) continue;
      scheduler_.cancel(request);
      return;
    }
    throw std::invalid_argument("there is no such request under way");
  }

  void end(decoding::RequestId request, const decoding::Outcome& outcome) {
    Answer answer = std::move(answers_.extract(request).mapped());
    const decoding::Generation& generation = outcome.generation;
    const decoding::Statistics& of = generation.statistics;
    answer.show(generation.text.substr(answer.shown));
    Event event = {{"id", answer.id},
                   {"reason", name(generation.reason)},
                   {"prompt_tokens", of.prompt_tokens},
                   {"generated_tokens", of.generated_tokens}};
    if (outcome.error) event["error"] = what(outcome.error);
    if (!generation.log_probabilities.empty()) {
      event["logprobs"] = log_probabilities(generation.log_probabilities, tokenizer_);
    }
    if (options_.timings) {
      event["cached_tokens"] = of.cached_tokens;
      event["preemptions"] = outcome.preemptions;
      event["queue_ms"] = outcome.queue_seconds * 1e3;
      event["first_token_ms"] = of.time_to_first_token * 1e3;
      event["token_ms"] = of.time_per_output_token() * 1e3;
    }
    say(event);
  }

  static std::string what(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& known) {
      return known.what();
    }
  }

  void progress() const {
    const decoding::SchedulerStatistics& of = scheduler_.statistics();
    std::cerr << "running " << scheduler_.running() << ", waiting " << scheduler_.waiting()
              << ", ended " << of.ended << ", " << of.generated_tokens << " tokens generated, "
              << pool_.used_pages() << " of " << pool_.total_pages() << " pages in use\n";
  }

  void print_statistics() const {
    const decoding::SchedulerStatistics& of = scheduler_.statistics();
    std::cerr << "requests           " << of.submitted << ", of which failed " << of.failed << '\n'
              << "prompt tokens      " << of.prompt_tokens << ", of which cached "
              << of.cached_tokens << '\n'
              << "generated tokens   " << of.generated_tokens << '\n'
              << "in line            " << of.mean_queue_seconds() * 1e3 << " ms\n"
              << "first token        " << of.time_to_first_token() * 1e3 << " ms\n"
              << "each other token   " << of.time_per_output_token() * 1e3 << " ms\n"
              << "preemptions        " << of.preemptions << '\n'
              << "steps              " << of.steps << " of "
              << static_cast<double>(of.computed_tokens) /
                     static_cast<double>(std::max<Index>(1, of.steps))
              << " rows, " << of.step_seconds << " s\n";
  }

  const Options& options_;
  const text::Tokenizer& tokenizer_;
  std::vector<Token> end_tokens_;
  std::optional<Token> begin_token_;
  std::vector<Token> banned_tokens_;
  Index positions_;
  model::Workspace workspace_;
  kv::PagePool<C> pool_;
  kv::PrefixTree<C> tree_;
  decoding::Scheduler scheduler_;
  std::map<decoding::RequestId, Answer> answers_;
  Index number_ = 0;  // of the last line
};

// A file, or standard input.
std::shared_ptr<std::istream> open(const std::string& path) {
  if (path.empty()) return {&std::cin, [](std::istream*) {}};
  auto file = std::make_shared<std::ifstream>(path);
  expects<examples::UsageError>(file->is_open() && !std::filesystem::is_directory(path),
                                "--input: cannot read ", path);
  return file;
}

void serve(const Options& options) {
  checkpoints::Checkpoint checkpoint = examples::load(options.model, options.load);
  const text::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  const std::shared_ptr<std::istream> in = open(options.input);
  const model::Decoder decoder(checkpoint.config, std::move(checkpoint.weights));
  ThreadPool threads(options.threads);
  codec::visit_cache(options.cache, [&]<class C>(C) {
    auto engine = examples::checked("--page-size", [&] {
      return std::make_unique<Engine<C>>(options, decoder, tokenizer, checkpoint, threads);
    });
    engine->run(in);
  });
}

// The fields of a line, for --help.
std::string fields() {
  std::string text = "FIELDS of a request, a line of JSON:\n";
  for (const auto& [name, about] : examples::kRequestFields) {
    text += sentence("  ", name, std::string(22 - name.size(), ' '), about, "\n");
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("serve_batch", "Answers requests, a line of JSON each.");
  declare(command, options);
  command.set_footer(fields());
  return command.run(argc, argv, [&] { serve(options); });
}
