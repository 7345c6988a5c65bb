// A program against decant::compiled_io: it reads a tokenizer and sees what is missing. No header
// here brings JSON, ICU or xxHash.
#include <decant/io.hpp>

#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#if defined(NLOHMANN_JSON_VERSION_MAJOR) || defined(U_ICU_VERSION) || \
    defined(XXHASH_H_5627135585666179)
#error "the interface is light no more"
#endif

using namespace decant;

// Whether `load` refuses a file that is not there by its name.
template <class Load>
bool refused(Load load) try {
  load("no/such/file.gguf");
  return false;
} catch (const std::exception& refusal) {
  std::puts(refusal.what());
  return std::string_view(refusal.what()).find("no/such/file") != std::string_view::npos;
}

int main() {
  const auto tokenizer = text::Tokenizer::parse(
      R"({"normalizer": {"type": "NFC"},
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
          "decoder": {"type": "Fuse"}})",
      "tokenizer.json");
  const std::vector<Token> tokens = tokenizer.encode("aab");
  text::TextStream stream(tokenizer, {}, false);
  const bool told = stream.push(0) + stream.push(2) + stream.finish() == tokenizer.decode(tokens);
  return tokens == std::vector<Token>{0, 2} && told &&
                 refused([](const char* path) { checkpoints::load_checkpoint(path); }) &&
                 refused([](const char* path) { text::load_tokenizer(path); }) &&
                 refused([](const char* path) { snapshots::Snapshot::open(path); })
             ? 0
             : 1;
}
