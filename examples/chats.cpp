// chats: eight chats at once, over one prefix cache in int8.
//
// You learn how a service answers many clients: each submits a request with stop strings and reads
// a stream of tokens with their text and log-probabilities; what the prompts have in common is
// computed once; a client that has read enough cancels its request.
#include <decant/codec/scaled.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/decoding/service.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/text/text_stream.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"

#include <cmath>
#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;

const std::string kScene =
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n"
    "First Citizen:\nYou are all resolved rather to die than to famish?\n\n";
const std::vector<std::string> kSpeakers = {
    "ROMEO:", "JULIET:", "HAMLET:", "OPHELIA:", "MACBETH:", "All:", "LEAR:", "GLOUCESTER:"};

// Reads a stream to its end, or to its tenth token if the client is impatient. "Likely" is the
// geometric mean of the probabilities of the tokens.
void show(const std::string& speaker, decoding::Stream stream, bool impatient) {
  std::string text;
  double sum = 0;
  Index tokens = 0;
  while (const auto next = stream.next()) {
    text += next->text;
    sum += next->log_probabilities->taken.value;
    tokens += 1;
    if (impatient && tokens == 10) break;
  }
  if (impatient) stream.cancel();
  const decoding::Outcome outcome = stream.wait();
  std::cout << "--- " << speaker << text << "\n    (" << tokens << " tokens read, "
            << std::round(std::exp(sum / static_cast<double>(tokens)) * 100) << " % likely each, "
            << (impatient ? "enough" : name(outcome.generation.reason)) << ")\n";
}

void chats(const std::string& folder) {
  checkpoints::Checkpoint checkpoint = examples::load(folder);
  const text::Tokenizer tokenizer = examples::load_tokenizer(folder);
  const model::Decoder decoder(checkpoint.config, std::move(checkpoint.weights));
  ThreadPool threads(2);
  kv::PagePool<codec::Int8> pool(decoder.config().geometry(), 256, 16);
  kv::PrefixTree tree(pool);
  model::Workspace workspace(decoder.config(), decoding::scheduler_limits(8), threads);
  decoding::Scheduler scheduler(decoder, workspace, pool, {}, &tree);
  decoding::Service service(scheduler);

  std::vector<decoding::Stream> streams;
  for (const std::string& speaker : kSpeakers) {
    decoding::Request request = {.prompt = tokenizer.encode(kScene + speaker)};
    request.options = {.max_new_tokens = 60,
                       .stop = {.end_tokens = checkpoint.end_tokens, .stop_strings = {"\n\n"}},
                       .sampler = {.temperature = 0.6, .seed = 3},
                       .log_probabilities = 0,
                       .text = text::TextStream(tokenizer, request.prompt),
                       .banned_tokens = tokenizer.unused_ids(decoder.config().vocabulary)};
    streams.push_back(service.submit(std::move(request)));
  }
  for (std::size_t at = 0; at < streams.size(); ++at) {
    show(kSpeakers[at], std::move(streams[at]), kSpeakers[at] == "LEAR:");
  }
  const decoding::SchedulerStatistics& of = service.metrics().totals;
  std::cout << of.prompt_tokens << " tokens of prompts, of which " << of.cached_tokens
            << " were cached\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::string model = examples::default_model_folder();
  examples::CommandLine command("chats", "Eight chats at once, over one prefix cache.");
  examples::add_model(command, model, "a checkpoint (the embedded one)");
  return command.run(argc, argv, [&] { chats(model); });
}
