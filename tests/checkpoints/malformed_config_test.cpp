// tests/checkpoints/malformed_config_test.cpp - configurations that say nothing a model could be
// made of, and the special tokens, which may be odd without being wrong.
#include <decant/checkpoints/detail/hf_config.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>

#include "files/written_files.hpp"
#include "fuzz/config_target.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace decant;
using checkpoints::detail::CheckpointConfig;
using files::Json;
using trial::refuses;

const Json kLlama = {{"model_type", "llama"},    {"vocab_size", 100},
                     {"hidden_size", 64},        {"num_hidden_layers", 3},
                     {"num_attention_heads", 4}, {"intermediate_size", 96}};

CheckpointConfig parse_text(const std::string& text) {
  return checkpoints::detail::parse_hf_config(text, "config.json");
}
CheckpointConfig config_with(const Json& changes) {
  Json json = kLlama;
  json.update(changes);
  return parse_text(json.dump());
}

TEST(MalformedConfig, ThatLacksASizeIsRefused) {
  for (const auto& [key, value] : kLlama.items()) {
    Json json = kLlama;
    json.erase(key);
    EXPECT_TRUE(refuses([&] { parse_text(json.dump()); }, {"config.json: " + key + " is absent"}));
    json[key] = nullptr;
    EXPECT_TRUE(refuses([&] { parse_text(json.dump()); }, {"config.json: " + key + " is absent"}));
  }
}

TEST(MalformedConfig, WithASizeThatIsNoCountIsRefusedByName) {
  for (const char* key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "intermediate_size", "head_dim", "max_position_embeddings"}) {
    for (const char* value : {"0", "-1", "4.0", "1e3", "\"4\"", "true", "[]", "{}", "2147483649",
                              "9223372036854775807", "9223372036854775808", "1e300"}) {
      Json json = kLlama;
      json[key] = Json::parse(value);
      EXPECT_TRUE(refuses([&] { parse_text(json.dump()); }, {"config.json: ", key})) << value;
    }
  }
}

TEST(MalformedConfig, WhoseProductsOverflowIsRefused) {
  const Index most = Index{1} << 31;
  EXPECT_TRUE(refuses([&] { config_with({{"vocab_size", most}, {"hidden_size", most}}); },
                      {"config.json", "63 bits"}));
  EXPECT_TRUE(
      refuses([&] { config_with({{"num_hidden_layers", 1 << 20}}); }, {"num_hidden_layers"}));
  EXPECT_TRUE(
      refuses([&] { config_with({{"head_dim", most}, {"hidden_size", most}}); }, {"config.json"}));
}

TEST(MalformedConfig, WithAnImpossibleEpsilonIsRefused) {
  for (const char* value : {"-1e-6", "2", "1e300", "\"1e-6\"", "true", "[]"}) {
    EXPECT_TRUE(
        refuses([&] { config_with({{"rms_norm_eps", Json::parse(value)}}); }, {"rms_norm_eps"}))
        << value;
  }
  EXPECT_TRUE(refuses([] { config_with({{"rms_norm_eps", "NaN"}}); }, {"rms_norm_eps"}));
}

TEST(MalformedConfig, OfAnUnknownFamilyIsRefusedByName) {
  for (const char* type :
       {"smollm3", "gemma2", "gemma3", "mixtral", "phi", "gpt_neox", "", "Llama"}) {
    EXPECT_TRUE(refuses([&] { config_with({{"model_type", type}}); },
                        {"config.json: model_type", type, "not supported"}));
  }
  EXPECT_TRUE(refuses([] { config_with({{"model_type", 7}}); }, {"model_type is 7"}));
  EXPECT_TRUE(
      refuses([] { config_with({{"model_type", "gemma2"}, {"final_logit_softcapping", 30.0}}); },
              {"model_type", "gemma2"}));
}

TEST(MalformedConfig, WithAFeatureThatChangesTheModelIsRefusedByName) {
  const Json features = {{"quantization_config", {{"quant_method", "gptq"}}},
                         {"attn_logit_softcapping", 50.0},
                         {"final_logit_softcapping", 30.0},
                         {"query_pre_attn_scalar", 256},
                         {"no_rope_layers", {1, 1, 0}},
                         {"use_bidirectional_attention", true},
                         {"is_encoder_decoder", true},
                         {"add_cross_attention", true}};
  for (const auto& [key, feature] : features.items()) {
    EXPECT_TRUE(refuses([&, name = key, value = feature] { config_with({{name, value}}); },
                        {key, "not supported"}));
    EXPECT_NO_THROW(config_with({{key, nullptr}})) << key;
    EXPECT_NO_THROW(config_with({{key, false}})) << key;
    EXPECT_NO_THROW(config_with({{key, Json::object()}})) << key;
  }
}

TEST(MalformedConfig, WithFlagsThatAreNoFlagsIsRefused) {
  for (const char* key : {"tie_word_embeddings", "attention_bias", "mlp_bias"}) {
    for (const char* value : {"1", "\"true\"", "[]"}) {
      EXPECT_TRUE(
          refuses([&] { config_with({{key, Json::parse(value)}}); }, {key, "true or false"}));
    }
  }
}

TEST(MalformedConfig, ThatIsNoObjectIsRefused) {
  for (const char* text : {"", "[]", "1", "null", "\"llama\"", "{", "\xff\xfe{\0}"}) {
    EXPECT_TRUE(refuses([&] { parse_text(text); }, {"config.json"})) << text;
  }
  EXPECT_TRUE(refuses([] { parse_text(R"({"vocab_size":1,"vocab_size":2})"); }, {"appears twice"}));
}

TEST(MalformedConfig, FromTheCorpusIsRefusedUnlessItsNameSaysThatItIsValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DECANT_FUZZ_CORPUS "/config")) {
    const std::string text = trial::read_file(entry.path());
    const bool valid = entry.path().filename().string().starts_with("valid-");
    EXPECT_EQ(fuzz::accepts_config(text), valid) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 20);
}

TEST(SpecialTokens, AreOneAListOrNone) {
  EXPECT_EQ(config_with({{"eos_token_id", 2}}).end_tokens, (std::vector<Token>{2}));
  EXPECT_EQ(config_with({{"eos_token_id", {9, 0, 99}}}).end_tokens, (std::vector<Token>{9, 0, 99}));
  EXPECT_TRUE(config_with({{"eos_token_id", nullptr}}).end_tokens.empty());
  EXPECT_TRUE(config_with({{"eos_token_id", Json::array()}}).end_tokens.empty());
  EXPECT_EQ(config_with({{"bos_token_id", 1}}).begin_token, 1);
  EXPECT_FALSE(config_with({{"bos_token_id", nullptr}}).begin_token.has_value());
  for (const char* value : {"\"2\"", "2.0", "{}", "[\"2\"]", "true"}) {
    EXPECT_TRUE(
        refuses([&] { config_with({{"eos_token_id", Json::parse(value)}}); }, {"eos_token_id"}));
  }
}

TEST(SpecialTokens, OutsideTheVocabularyAreIgnoredWithAWarning) {
  const CheckpointConfig config =
      config_with({{"eos_token_id", {50256, 2, -1}}, {"bos_token_id", 100}});
  EXPECT_EQ(config.end_tokens, (std::vector<Token>{2}));
  EXPECT_FALSE(config.begin_token.has_value());
  ASSERT_EQ(config.warnings.size(), 3u);
  EXPECT_NE(config.warnings[0].find("eos_token_id 50256"), std::string::npos);
}

class ConfigFolder : public ::testing::Test {
 protected:
  ConfigFolder() {
    Json json = kLlama;
    json.update({{"eos_token_id", 2}, {"bos_token_id", 1}});
    folder_.write("config.json", json.dump());
  }
  CheckpointConfig read() const { return checkpoints::detail::read_hf_config(folder_.path()); }

  trial::Folder folder_;
};

TEST_F(ConfigFolder, WithoutGenerationConfigRetainsItsTokens) {
  EXPECT_EQ(read().end_tokens, (std::vector<Token>{2}));
  EXPECT_EQ(checkpoints::read_config(folder_.path()).hidden_size, 64);
}

TEST_F(ConfigFolder, TakesTheTokensOfGenerationConfigWhereItNamesSome) {
  folder_.write("generation_config.json", R"({"eos_token_id":[5,6]})");
  EXPECT_EQ(read().end_tokens, (std::vector<Token>{5, 6}));
  EXPECT_EQ(read().begin_token, 1);
  folder_.write("generation_config.json", R"({"eos_token_id":null,"bos_token_id":3})");
  EXPECT_EQ(read().end_tokens, (std::vector<Token>{2}));
  EXPECT_EQ(read().begin_token, 3);
}

TEST_F(ConfigFolder, RefusesABrokenGenerationConfigByName) {
  for (const char* text : {"", "[]", "{", R"({"eos_token_id":"x"})"}) {
    folder_.write("generation_config.json", text);
    EXPECT_TRUE(refuses([&] { read(); }, {"generation_config.json"})) << text;
  }
}

TEST_F(ConfigFolder, WithoutAConfigurationIsRefusedByName) {
  std::filesystem::remove(folder_.path() / "config.json");
  EXPECT_TRUE(refuses([&] { read(); }, {"config.json", "No such file"}));
}

}  // namespace
