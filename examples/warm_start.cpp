// warm_start: a prefix cache that outlives its program.
//
// You learn how an engine saves the prefix cache when it stops and restores it when it starts, so
// that the first requests find their prompts computed; the tokens are the same.
#include <decant/codec/plain.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/snapshots/fingerprint.hpp>
#include <decant/snapshots/prefix_snapshot.hpp>
#include <decant/text/text_stream.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"

#include <filesystem>
#include <iostream>
#include <string>
#include <utility>

namespace {

using namespace decant;

const std::string kPrompt =
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n"
    "First Citizen:\nYou are all resolved rather to die than to famish?\n\nAll:\n";

// An engine with a prefix cache of its own, which is empty at first.
class Engine {
 public:
  Engine(const model::Decoder& decoder, const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        workspace_(decoder.config(), decoding::scheduler_limits(8)),
        pool_(decoder.config().geometry(), 128, 16),
        tree_(pool_),
        scheduler_(decoder, workspace_, pool_, {}, &tree_) {}

  kv::PrefixTree<codec::F16>& tree() { return tree_; }

  void answer(const std::string& prompt) {
    decoding::Request request = {.prompt = tokenizer_.encode(prompt)};
    request.options = {.max_new_tokens = 24,
                       .stop = {.stop_strings = {"\n\n"}},
                       .text = text::TextStream(tokenizer_, request.prompt)};
    scheduler_.submit(std::move(request));
    while (!scheduler_.idle()) {
      for (const decoding::Event& event : scheduler_.step()) {
        if (!event.outcome) continue;
        const decoding::Generation& generation = event.outcome->generation;
        std::cout << generation.text << "\n    (" << generation.statistics.cached_tokens << " of "
                  << generation.statistics.prompt_tokens << " prompt tokens were cached)\n";
      }
    }
  }

 private:
  const text::Tokenizer& tokenizer_;
  model::Workspace workspace_;
  kv::PagePool<codec::F16> pool_;
  kv::PrefixTree<codec::F16> tree_;
  decoding::Scheduler scheduler_;
};

void warm_start(const std::string& folder, const std::filesystem::path& file) {
  checkpoints::Checkpoint checkpoint = examples::load(folder);
  const text::Tokenizer tokenizer = examples::load_tokenizer(folder);
  const model::Decoder decoder(checkpoint.config, std::move(checkpoint.weights));
  const std::string model = snapshots::fingerprint(decoder);  // a file belongs to one model
  {
    Engine first(decoder, tokenizer);
    first.answer(kPrompt);
    snapshots::save_prefixes(file, first.tree(), model);
  }
  Engine second(decoder, tokenizer);
  snapshots::PrefixSnapshot::open(file).restore(second.tree(), model);
  second.answer(kPrompt);
  std::cout << file.filename().string() << " has " << std::filesystem::file_size(file)
            << " bytes\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::string model = examples::default_model_folder();
  std::string file = "prefixes.decant";
  examples::CommandLine command("warm_start", "A prefix cache that outlives its program.");
  examples::add_model(command, model, "a checkpoint (the embedded one)");
  command.add_nonempty_text("--file", file, "where it is saved (prefixes.decant)", "FILE");
  return command.run(argc, argv, [&] { warm_start(model, file); });
}
