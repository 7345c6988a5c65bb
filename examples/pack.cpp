// pack: writes a checkpoint to one file that is mapped instead of loaded.
//
// You learn what loading does (weights are converted to the panels that products read) and how to
// do it once: the file holds the panels, opens in the time that its pages take, and is shared by
// all programs that open it.
#include <decant/checkpoints/pack_checkpoint.hpp>

#include <decant/core/thread_pool.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"

#include <filesystem>
#include <iostream>
#include <string>

namespace {

using namespace decant;

struct Options {
  std::string model = examples::default_model_folder();
  std::string out;
  checkpoints::LoadOptions load;
  Index threads = examples::default_threads();
};

void declare(examples::CommandLine& command, Options& options) {
  examples::add_model(command, options.model, "a checkpoint (the embedded model)");
  command.add_nonempty_text("--out", options.out, "the file to write", "FILE").required();
  examples::add_weights(command, options.load);
  examples::add_threads(command, options.threads);
}

void pack(const Options& options) {
  ThreadPool threads(options.threads);
  checkpoints::pack_checkpoint(options.model, options.out, options.load, {.executor = threads});
  std::cout << options.out << ": "
            << examples::counted(static_cast<Index>(std::filesystem::file_size(options.out)),
                                 "byte")
            << ", to be given as --model\n";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("pack", "Writes a checkpoint to a file that is mapped.");
  declare(command, options);
  return command.run(argc, argv, [&] { pack(options); });
}
