// tests/checkpoints/malformed_adapter_test.cpp - folders of adapters that are refused, by name.
#include <decant/checkpoints/load_adapter.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/files/json.hpp>

#include "checkpoints/written_checkpoint.hpp"
#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace decant;
using files::Json;
using trial::refuses;

// An adapter of rank 2 of two projections, for WrittenCheckpoint::llama(), to be changed by tests.
struct WrittenAdapter {
  WrittenAdapter() {
    for (const char* layer : {"0", "1"}) {
      add(std::string("model.layers.") + layer + ".self_attn.q_proj", 2, 8, 12);
      add(std::string("model.layers.") + layer + ".mlp.down_proj", 2, 10, 8);
    }
  }

  void add(const std::string& module, Index rank, Index inputs, Index outputs,
           const std::string& dtype = "F32") {
    tensors.add("base_model.model." + module + ".lora_A.weight", {rank, inputs}, dtype);
    tensors.add("base_model.model." + module + ".lora_B.weight", {outputs, rank}, dtype);
  }

  std::shared_ptr<const model::Adapter> load() const { return load(model_config()); }
  std::shared_ptr<const model::Adapter> load(const model::Config& model) const {
    const trial::Folder folder;
    folder.write("adapter_config.json", config.dump());
    folder.write("adapter_model.safetensors", tensors.file());
    return checkpoints::load_adapter(folder.path(), model);
  }

  testing::AssertionResult refused(std::initializer_list<std::string_view> parts) const {
    return refuses([&] { load(); }, parts);
  }

  static model::Config model_config() { return trial::WrittenCheckpoint::llama().load().config; }

  Json config = {{"peft_type", "LORA"},
                 {"r", 2},
                 {"lora_alpha", 4},
                 {"target_modules", {"q_proj", "down_proj"}}};
  trial::TensorSet tensors;
};

WrittenAdapter with(const Json& changes) {
  WrittenAdapter adapter;
  adapter.config.update(changes);
  return adapter;
}

constexpr const char* kQuery = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
constexpr const char* kQueryB = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight";

TEST(MalformedAdapter, IsAcceptedIfNothingIsWrong) {
  EXPECT_NE(WrittenAdapter().load(), nullptr);
  EXPECT_NE(with({{"use_dora", false},
                  {"modules_to_save", nullptr},
                  {"loftq_config", Json::object()},
                  {"fan_in_fan_out", true},
                  {"lora_dropout", 0.1},
                  {"init_lora_weights", "eva"}})
                .load(),
            nullptr);
}

TEST(MalformedAdapter, WithASettingThatIsNotComputedIsRefusedByName) {
  const std::pair<const char*, Json> settings[] = {{"use_dora", true},
                                                   {"modules_to_save", {"lm_head"}},
                                                   {"trainable_token_indices", {1, 2}},
                                                   {"layer_replication", {{0, 1}}},
                                                   {"lora_bias", true},
                                                   {"use_qalora", true},
                                                   {"target_parameters", {"x"}},
                                                   {"alora_invocation_tokens", {3}},
                                                   {"a_setting_of_tomorrow", 1}};
  for (const auto& [key, value] : settings) {
    EXPECT_TRUE(with({{key, value}})
                    .refused({"adapter_config.json: ", key, " is set, which is not supported"}));
  }
  EXPECT_TRUE(with({{"bias", "all"}}).refused({"bias is \"all\", which is not supported"}));
  EXPECT_TRUE(with({{"peft_type", "IA3"}}).refused({"peft_type is \"IA3\""}));
  EXPECT_TRUE(with({{"peft_type", nullptr}}).refused({"peft_type is \"\""}));
  for (const char* begin : {"pissa", "olora", "loftq", "corda", "mica"}) {
    EXPECT_TRUE(with({{"init_lora_weights", begin}}).refused({"init_lora_weights is", begin}));
  }
}

TEST(MalformedAdapter, WithARankOrAScaleThatMeansNothingIsRefusedByName) {
  for (const char* key : {"r", "lora_alpha"}) {
    for (const Json& value : {Json(0), Json(-1), Json("2"), Json(1e300)}) {
      EXPECT_TRUE(with({{key, value}}).refused({"adapter_config.json: ", key, " is "}));
    }
  }
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    EXPECT_TRUE(with({{key, 3}}).refused({key, "not an object"}));
    EXPECT_TRUE(with({{key, {{"q_proj", "x"}}}}).refused({key, "q_proj", "not a finite number"}));
    EXPECT_TRUE(with({{key, {{"layers.[01].q_proj", 2}}}})
                    .refused({"layers.[01].q_proj is a regular expression"}));
    EXPECT_TRUE(with({{key, {{"q_proj", 2}, {"self_attn.q_proj", 3}}}})
                    .refused({"two patterns give model.layers.0.self_attn.q_proj 2 and 3"}));
  }
  EXPECT_TRUE(with({{"use_rslora", 1}}).refused({"use_rslora is number, not true or false"}));
  EXPECT_TRUE(with({{"target_modules", 1}}).refused({"target_modules is number"}));
}

TEST(MalformedAdapter, WhoseRanksContradictTheirTensorsIsRefused) {
  EXPECT_TRUE(with({{"r", 3}}).refused({"has rank 2, and its configuration says 3"}));
  EXPECT_TRUE(with({{"rank_pattern", {{"layers.1.mlp.down_proj", 5}}}})
                  .refused({"layers.1.mlp.down_proj.lora_A.weight has rank 2", "says 5"}));
}

TEST(MalformedAdapter, WithTensorsThatNobodyAskedForIsRefused) {
  for (const char* name :
       {"x", "base_model.model.lm_head.lora_A.weight",
        "base_model.model.model.embed_tokens.lora_embedding_A", "base_model.model.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias",
        "base_model.model.model.layers.x.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.-1.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.mlp.experts.lora_A.weight"}) {
    WrittenAdapter adapter;
    adapter.tensors.add(name, {2, 8});
    EXPECT_TRUE(adapter.refused({"adapter_model.safetensors: unexpected tensor ", name}));
  }
}

TEST(MalformedAdapter, WithAnAButNoBIsRefused) {
  for (const char* name : {kQuery, kQueryB}) {
    WrittenAdapter adapter;
    adapter.tensors.remove(name);
    EXPECT_TRUE(adapter.refused({name, "is absent"}));
  }
}

TEST(MalformedAdapter, OfOtherShapesIsRefused) {
  WrittenAdapter wide;
  wide.tensors.add(kQuery, {2, 9});
  EXPECT_TRUE(wide.refused({"adapter_model.safetensors: does not fit the model: ",
                            "the query of layer 1 is changed by [12, 2] times [2, 9]"}));
  WrittenAdapter flat;
  flat.tensors.add(kQuery, {16});
  EXPECT_TRUE(flat.refused({kQuery, "has shape [16], not that of a matrix"}));
  WrittenAdapter deep;
  deep.add("model.layers.2.self_attn.q_proj", 2, 8, 12);
  EXPECT_TRUE(deep.refused({"does not fit the model: ", "layer 2 of 2"}));
  WrittenAdapter integers;
  integers.tensors.add(kQuery, {2, 8}, "I32");
  EXPECT_TRUE(integers.refused({kQuery, "is I32, which an adapter cannot be"}));
}

TEST(MalformedAdapter, WithoutTensorsOfATargetIsRefused) {
  EXPECT_TRUE(with({{"target_modules", {"q_proj", "down_proj", "embed_tokens"}}})
                  .refused({"target_modules names embed_tokens, of which the file has no tensor"}));
}

TEST(MalformedAdapter, WhoseTargetIsOnlyAPartOfANameIsRefused) {
  EXPECT_TRUE(with({{"target_modules", {"proj"}}}).refused({"target_modules names proj"}));
}

TEST(MalformedAdapter, OfQueriesInAnotherOrderThanTheModelsIsRefused) {
  model::Config config = WrittenAdapter::model_config();
  config.rope->pairing = attention::Pairing::interleaved;
  EXPECT_TRUE(refuses([&] { WrittenAdapter().load(config); }, {"interleaved rotary pairs"}));
}

TEST(MalformedAdapter, WithoutItsFilesIsRefused) {
  const trial::Folder empty;
  EXPECT_TRUE(
      refuses([&] { checkpoints::load_adapter(empty.path(), WrittenAdapter::model_config()); },
              {"adapter_config.json"}));
  empty.write("adapter_config.json", WrittenAdapter().config.dump());
  EXPECT_TRUE(
      refuses([&] { checkpoints::load_adapter(empty.path(), WrittenAdapter::model_config()); },
              {"adapter_model.safetensors"}));
}

TEST(MalformedAdapter, IsReadInEveryFormatOfWeights) {
  for (const char* dtype : {"BF16", "F16"}) {
    WrittenAdapter adapter;
    adapter.add("model.layers.1.self_attn.q_proj", 2, 8, 12, dtype);
    EXPECT_EQ(adapter.load()->id(), WrittenAdapter().load()->id());
  }
}

}  // namespace
