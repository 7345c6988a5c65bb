// tests/checkpoints/packed_checkpoint_test.cpp - a packed file gives the model that was packed, and
// nothing else passes for one.
#include <decant/attention/rope.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/checkpoints/pack_checkpoint.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/text/tokenizer.hpp>

#include "checkpoints/same_weights.hpp"
#include "checkpoints/written_checkpoint.hpp"
#include "files/written_gguf.hpp"
#include "fuzz/packed_target.hpp"
#include "model/files.hpp"
#include "model/run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using checkpoints::Checkpoint;
using checkpoints::LoadOptions;
using trial::refuses;
using trial::same_weights;
using trial::WrittenCheckpoint;

const std::filesystem::path kShakespeare =
    std::filesystem::path(DECANT_EXAMPLE_MODELS) / "shakespeare";

// The packed file of a written checkpoint.
std::filesystem::path pack(const trial::Folder& folder, const WrittenCheckpoint& written,
                           const LoadOptions& options = {}) {
  folder.write("config.json", written.config.dump());
  folder.write("model.safetensors", written.tensors.file());
  checkpoints::pack_checkpoint(folder.path(), folder.path() / "model.packed", options);
  return folder.path() / "model.packed";
}

TEST(PackedCheckpoint, HasConfigurationAndParametersOfTheOriginal) {
  WrittenCheckpoint gemma = WrittenCheckpoint::llama("gemma");
  gemma.tensors.remove("lm_head.weight");
  gemma.config["eos_token_id"] = {1, 2};
  gemma.config["bos_token_id"] = 3;
  for (const WrittenCheckpoint& written :
       {WrittenCheckpoint::llama(), WrittenCheckpoint::gpt2(), gemma}) {
    for (const codec::Type type : {codec::Type::f32, codec::Type::bf16, codec::Type::f16,
                                   codec::Type::q8_0, codec::Type::q4_0}) {
      const trial::Folder folder;
      const Checkpoint expected = written.load({.weights = type});
      const std::filesystem::path path = pack(folder, written, {.weights = type});
      const Checkpoint loaded = checkpoints::load_checkpoint(path);
      EXPECT_EQ(loaded.config, expected.config);
      EXPECT_EQ(loaded.end_tokens, expected.end_tokens);
      EXPECT_EQ(loaded.begin_token, expected.begin_token);
      EXPECT_TRUE(same_weights(loaded.weights, expected.weights)) << codec::name(type);
      EXPECT_EQ(checkpoints::read_config(path), expected.config);
    }
  }
}

TEST(PackedCheckpoint, HasTheHeadOfAClassificationModel) {
  WrittenCheckpoint written = WrittenCheckpoint::llama();
  const Index hidden = written.config["hidden_size"].get<Index>();
  written.tensors.add("score.weight", {3, hidden});
  const trial::Folder folder;
  const model::ScoreHead expected = written.load().score;
  ASSERT_EQ(expected.labels, 3);
  const Checkpoint loaded = checkpoints::load_checkpoint(pack(folder, written));
  EXPECT_EQ(loaded.score.labels, 3);
  EXPECT_EQ(loaded.score.weight, expected.weight);
}

TEST(PackedCheckpoint, HasEveryFieldOfAConfiguration) {
  Checkpoint checkpoint;
  model::Config& config = checkpoint.config;
  config = {.vocabulary = 7,
            .layers = 2,
            .hidden_size = 6,
            .heads = 2,
            .kv_heads = 1,
            .key_dim = 4,
            .value_dim = 5,
            .intermediate_size = 9,
            .max_positions = 11};
  config.norm = model::Norm::layer;
  config.activation = model::Activation::gelu_tanh;
  config.gated = false;
  config.norm_epsilon = 1.1e-7f;
  config.embedding_scale = 0.1f;
  config.score_scale = 0.3f;
  config.windows = {0, 8};
  config.sink_tokens = 4;
  const attention::Scaling scalings[] = {attention::Unscaled{}, attention::LinearScaling{1.7},
                                         attention::Llama3Scaling{3.3, 1.1, 4.4, 4096.5}};
  for (const attention::Scaling& scaling : scalings) {
    config.rope = attention::Rope{.rotary_dim = 2,
                                  .theta = 12345.6789,
                                  .pairing = attention::Pairing::interleaved,
                                  .scaling = scaling};
    const std::string text = checkpoints::detail::to_json(checkpoint);
    EXPECT_EQ(checkpoints::detail::parse_packed_config(text, "x").config, config);
  }
  config.rope.reset();
  const std::string text = checkpoints::detail::to_json(checkpoint);
  EXPECT_EQ(checkpoints::detail::parse_packed_config(text, "x").config, config);
}

TEST(PackedCheckpoint, GivesTheBitsOfTheFolderItWasMadeOf) {
  if (!std::filesystem::exists(kShakespeare)) GTEST_SKIP() << "no model in " << kShakespeare;
  const auto tokens = trial::read_tokens(kShakespeare / "reference" / "romeo.tokens.txt");
  const auto logits = [&](const std::filesystem::path& path, const LoadOptions& options) {
    Checkpoint checkpoint = checkpoints::load_checkpoint(path, options);
    const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
    return trial::chunked(decoder, tokens, 16);
  };
  const trial::Folder folder;
  const std::filesystem::path packed = folder.path() / "q8";
  const LoadOptions full = {.weights = codec::Type::q8_0,
                            .activations = kernels::Activations::full};
  checkpoints::pack_checkpoint(kShakespeare, packed, {.weights = codec::Type::q8_0});
  EXPECT_EQ(logits(packed, {}), logits(kShakespeare, {.weights = codec::Type::q8_0}));
  EXPECT_EQ(logits(packed, {.verify = false}), logits(packed, {}));
  EXPECT_EQ(logits(packed, full), logits(kShakespeare, full));
  EXPECT_EQ(text::load_tokenizer(packed).encode("ROMEO:"),
            text::load_tokenizer(kShakespeare).encode("ROMEO:"));
}

TEST(PackedCheckpoint, OfAGgufFileHasItsModelAndItsTokenizer) {
  const trial::Folder folder;
  trial::WrittenGguf file = trial::WrittenGguf::llama();
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens",
             {"<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁a", "c", "d", "e"});
  file.integers("tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1});
  file.reals("tokenizer.ggml.scores", std::vector<float>(11, -1.0f));
  const std::filesystem::path from = folder.write("m.gguf", file.bytes());
  const std::filesystem::path packed = folder.path() / "m.packed";
  checkpoints::pack_checkpoint(from, packed);
  EXPECT_TRUE(same_weights(checkpoints::load_checkpoint(packed).weights,
                           checkpoints::load_checkpoint(from).weights));
  EXPECT_EQ(checkpoints::read_config(packed), checkpoints::read_config(from));
  EXPECT_EQ(text::load_tokenizer(packed).encode("ab a"), text::load_tokenizer(from).encode("ab a"));
}

TEST(PackedCheckpoint, HasTheTokensThatOnlyTheTokenizersConfigurationAdds) {
  if (!std::filesystem::exists(kShakespeare)) GTEST_SKIP() << "no model in " << kShakespeare;
  const trial::Folder folder;
  folder.write("tokenizer.json", trial::read_file(kShakespeare / "tokenizer.json"));
  folder.write("tokenizer_config.json",
               R"({"added_tokens_decoder": {"2000": {"content": "<|more|>", "special": true}}})");
  const text::Tokenizer expected = text::load_tokenizer(folder.path());
  ASSERT_TRUE(expected.id_of("<|more|>").has_value());
  const text::Tokenizer packed = text::load_tokenizer(pack(folder, WrittenCheckpoint::llama()));
  EXPECT_EQ(packed.id_of("<|more|>"), expected.id_of("<|more|>"));
}

TEST(PackedCheckpoint, MayHaveNoTokenizer) {
  const trial::Folder folder;
  const std::filesystem::path path = pack(folder, WrittenCheckpoint::llama());
  EXPECT_TRUE(refuses([&] { text::load_tokenizer(path); }, {"model.packed: has no tokenizer"}));
}

TEST(PackedCheckpoint, OutlivesItsName) {
  const trial::Folder folder;
  const WrittenCheckpoint written = WrittenCheckpoint::llama();
  const std::filesystem::path path = pack(folder, written);
  const Checkpoint loaded = checkpoints::load_checkpoint(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(same_weights(loaded.weights, written.load().weights));
}

TEST(PackedCheckpoint, IsRefusedInAnotherFormatThanItsOwn) {
  const trial::Folder folder;
  const std::filesystem::path path =
      pack(folder, WrittenCheckpoint::llama(), {.weights = codec::Type::q8_0});
  EXPECT_NO_THROW(checkpoints::load_checkpoint(path, {.weights = codec::Type::q8_0}));
  EXPECT_TRUE(refuses([&] { checkpoints::load_checkpoint(path, {.weights = codec::Type::bf16}); },
                      {"model.packed: is packed in q8_0, not in bf16"}));
}

TEST(PackedCheckpoint, IsRefusedWhereAnyByteChanged) {
  const trial::Folder folder;
  const std::string good = trial::read_file(pack(folder, WrittenCheckpoint::llama()));
  for (std::size_t at = 0; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    EXPECT_THROW(checkpoints::load_checkpoint(folder.write("bad", bad)), FormatError) << at;
  }
  EXPECT_TRUE(refuses(
      [&] {
        std::string bad = good;
        bad[good.size() / 2] ^= 1;
        checkpoints::load_checkpoint(folder.write("bad", bad));
      },
      {"bad: its checksum is another"}));
}

// The tensors of a packed file, to be bent and sealed again.
class Bent {
 public:
  explicit Bent(const std::filesystem::path& path)
      : bytes_(trial::read_file(path)),
        file_(files::Safetensors::parse(trial::bytes_of(bytes_), "good")) {
    metadata = {file_.metadata().begin(), file_.metadata().end()};
    for (const auto& [name, tensor] : file_.tensors()) {
      if (name != files::kChecksum) tensors[name] = tensor;
    }
  }

  // The sentence with which it is refused.
  ::testing::AssertionResult refused(std::initializer_list<std::string_view> parts) const {
    const trial::Folder folder;
    const std::filesystem::path path = folder.path() / "bent";
    std::vector<files::SealedWriter::Entry> entries;
    for (const bool matrices : {true, false}) {
      for (const auto& [name, tensor] : tensors) {
        if (tensor.data.size() % 64 == 0 && (tensor.dtype->name == "U8") == matrices) {
          entries.push_back({name, tensor.dtype->name, tensor.shape});
        }
      }
    }
    for (const auto& [name, tensor] : tensors) {
      if (std::ranges::find(entries, name, &files::SealedWriter::Entry::name) == entries.end()) {
        entries.push_back({name, tensor.dtype->name, tensor.shape});
      }
    }
    files::SealedWriter writer(path, metadata, entries);
    for (const auto& entry : entries) writer.write(tensors.at(entry.name).data);
    writer.commit();
    return refuses([&] { checkpoints::load_checkpoint(path); }, parts);
  }

  files::SealedWriter::Metadata metadata;
  std::map<std::string, files::Tensor> tensors;

 private:
  std::string bytes_;
  files::Safetensors file_;
};

TEST(PackedCheckpoint, IsRefusedByNameWhereItContradictsItself) {
  const trial::Folder folder;
  const std::filesystem::path path = pack(folder, WrittenCheckpoint::llama());
  const auto refused = [&](auto change, std::initializer_list<std::string_view> parts) {
    Bent bent(path);
    change(bent);
    return bent.refused(parts);
  };
  EXPECT_FALSE(refused([](Bent&) {}, {}));  // what is not bent is read
  EXPECT_TRUE(refused([](Bent& file) { file.metadata.erase("decant.packed"); },
                      {"bent: is no packed checkpoint"}));
  EXPECT_TRUE(refused([](Bent& file) { file.metadata["decant.packed"] = "2"; },
                      {"bent: is packed in version 2, not 1"}));
  EXPECT_TRUE(refused([](Bent& file) { file.metadata.erase("embedding"); },
                      {"does not say what embedding is"}));
  for (const char* text : {"", "f32", "f99 11 8 512", "f32 11 8"}) {
    EXPECT_TRUE(refused([&](Bent& file) { file.metadata["embedding"] = text; },
                        {"embedding is", "not a format, rows, columns and bytes"}));
  }
  EXPECT_TRUE(refused([](Bent& file) { file.metadata["embedding"] = "f32 11 8 500"; },
                      {"500 bytes of panels of f32 [11, 8], which take 512"}));
  EXPECT_TRUE(refused([](Bent& file) { file.metadata["embedding"] = "f32 11 16 1024"; },
                      {"embedding has 512 bytes, its panels 1024"}));
  EXPECT_TRUE(refused([](Bent& file) { file.metadata["embedding"] = "f32 10 8 512"; },
                      {"the embedding of layer -1 is [10, 8], not [11, 8]"}));
  EXPECT_TRUE(refused([](Bent& file) { file.metadata["embedding"] = "f32 -1 8 512"; },
                      {"panels of -1 rows"}));
  EXPECT_TRUE(
      refused([](Bent& file) { file.metadata["embedding"] = "f32 9223372036854775807 8 512"; },
              {"63 bits"}));
  EXPECT_TRUE(refused([](Bent& file) { file.metadata["embedding"] = "int8 11 8 512"; },
                      {"int8, which is no format of weights"}));
  EXPECT_TRUE(refused([](Bent& file) { file.tensors.erase("embedding"); },
                      {"the embedding of layer -1 is [0, 0]"}));
  EXPECT_TRUE(refused([](Bent& file) { file.tensors["more"] = file.tensors["embedding"]; },
                      {"unexpected tensor more"}));
  EXPECT_TRUE(refused([](Bent& file) { file.tensors.erase("config"); }, {"has no config"}));
  EXPECT_TRUE(
      refused([](Bent& file) { file.tensors["output_norm.weight"] = file.tensors["embedding"]; },
              {"output_norm.weight is U8, not F32"}));
}

TEST(PackedCheckpoint, InTheCorpusIsAcceptedOrRefusedAsItsNameSays) {
  Index files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DECANT_FUZZ_CORPUS "/packed")) {
    const std::string bytes = trial::read_file(entry.path());
    const bool valid = entry.path().filename().string().starts_with("valid");
    EXPECT_EQ(fuzz::accepts_packed(trial::bytes_of(bytes)), valid) << entry.path();
    files += 1;
  }
  EXPECT_GE(files, 6);
}

TEST(PackedCheckpoint, WithAnyByteOfItsHeaderChangedIsAModelOrRefused) {
  const trial::Folder folder;
  const std::string good = trial::read_file(pack(folder, WrittenCheckpoint::llama()));
  const std::size_t header = good.find("  ");
  Index refused = 0;
  for (std::size_t at = 0; at < header; ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    refused += fuzz::accepts_packed(trial::bytes_of(bad)) ? 0 : 1;
  }
  EXPECT_GT(refused, static_cast<Index>(header / 2));
  for (std::size_t size = 0; size < good.size(); size += 53) {
    EXPECT_FALSE(fuzz::accepts_packed(trial::bytes_of(good.substr(0, size)))) << size;
  }
}

TEST(PackedCheckpoint, IsNotMadeOfAPackedFile) {
  const trial::Folder folder;
  const std::filesystem::path path = pack(folder, WrittenCheckpoint::llama());
  EXPECT_TRUE(refuses([&] { checkpoints::pack_checkpoint(path, folder.path() / "again"); },
                      {"model.packed: is no folder and no GGUF file"}));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "again"));
}

TEST(PackedCheckpoint, IsNoOtherSafetensorsFile) {
  const trial::Folder folder;
  const auto path = folder.write("model.safetensors", WrittenCheckpoint::llama().tensors.file());
  EXPECT_TRUE(refuses([&] { checkpoints::load_checkpoint(path, {.verify = false}); },
                      {"model.safetensors: is no packed checkpoint"}));
  EXPECT_TRUE(refuses([&] { checkpoints::read_config(path); }, {"is no packed checkpoint"}));
}

}  // namespace
