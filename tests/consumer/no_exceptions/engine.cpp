#include "engine.hpp"

#include <decant/decant.hpp>
#include <decant/io.hpp>

#include <exception>
#include <utility>

using namespace decant;

struct Engine::Parts {
  explicit Parts(const std::string& folder) : Parts(folder, checkpoints::load_checkpoint(folder)) {}
  Parts(const std::string& folder, checkpoints::Checkpoint checkpoint)
      : tokenizer(text::load_tokenizer(folder)),
        end_tokens(checkpoint.end_tokens),
        decoder(checkpoint.config, std::move(checkpoint.weights)),
        workspace(decoder.config(), {.rows = 64}),
        store(decoder.config().geometry(), 256) {}

  text::Tokenizer tokenizer;
  std::vector<Token> end_tokens;
  model::Decoder decoder;
  model::Workspace workspace;
  kv::Contiguous<codec::F32> store;
};

Engine::Engine(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::open(const std::string& folder, std::string& error) noexcept {
  try {
    return std::unique_ptr<Engine>(new Engine(std::make_unique<Parts>(folder)));
  } catch (const std::exception& thrown) {
    error = thrown.what();
    return nullptr;
  }
}

Answer Engine::answer(const std::string& prompt, int max_new_tokens) noexcept {
  try {
    const std::vector<Token> tokens = parts_->tokenizer.encode(prompt);
    decoding::GenerateOptions options = {.max_new_tokens = max_new_tokens};
    options.stop.end_tokens = parts_->end_tokens;
    options.text = text::TextStream(parts_->tokenizer, tokens);
    parts_->store.rewind(0);
    return {generate(parts_->decoder, parts_->store, parts_->workspace, tokens, options).text, {}};
  } catch (const std::exception& thrown) {
    return {{}, thrown.what()};
  }
}
