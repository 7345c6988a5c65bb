// bench/peers/decant_run.cpp - decant as a participant: a command a line, an answer a line.
//
//   echo '{"op": "load", "shape": {...}, "weights": "q8_0", "positions": 8256}' |
//   bench_peers_decant
//
// Commands are JSON on standard input, answers JSON on standard output, times in seconds of wall
// clock and of processor. The process stays, so that its rounds can alternate with another
// engine's; compare.py does that, and protocol.py says which commands there are.
#include <decant/codec/block.hpp>
#include <decant/core/buffer.hpp>
#include <decant/model/decoder.hpp>
#include <decant/simd/lanes.hpp>
#include <decant/version.hpp>

#include "peers/attention_alone.hpp"
#include "peers/laps.hpp"
#include "peers/random_model.hpp"
#include "peers/session.hpp"
#include "support/bounds.hpp"

#include <algorithm>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace {

using namespace decant;
using nlohmann::json;

codec::Type type_of(const json& command, const char* field) {
  const std::string text = command.at(field).get<std::string>();
  const auto type = codec::parse(text);
  expects(type.has_value(), field, " \"", text, "\" is not a type");
  return *type;
}

class Participant {
 public:
  json answer(const json& command) {
    const std::string op = command.at("op").get<std::string>();
    if (op == "load") return load(command);
    if (op == "session") return open(command);
    if (op == "prefill") {
      return session(command).prefill(command.at("tokens"), rounds(command)).json();
    }
    if (op == "decode") {
      return session(command)
          .decode(command.at("context"), command.at("tokens"), rounds(command))
          .json();
    }
    if (op == "read") return read(command);
    if (op == "attention") return attention(command);
    throw std::invalid_argument(sentence("no such command: ", op));
  }

 private:
  static Index rounds(const json& command) { return command.value("rounds", Index{1}); }
  static Executor& executor(const json& command) {
    return bench::workers(command.at("threads").get<Index>());
  }

  json load(const json& command) {
    sessions_.clear();
    decoder_.reset();
    const model::Config config =
        bench::config_of(command.at("shape"), command.at("positions").get<Index>());
    decoder_.emplace(config, bench::random_weights(config, type_of(command, "weights")));
    return {{"engine", sentence("decant ", kVersion)},
            {"weight_bytes", model::matrix_bytes(decoder_->weights())}};
  }

  json open(const json& command) {
    expects(decoder_.has_value(), "no model is loaded");
    const std::string name = command.at("session").get<std::string>();
    sessions_.erase(name);
    auto made = bench::make_session(
        *decoder_, type_of(command, "cache"),
        {.capacity = command.at("capacity"), .chunk = command.at("chunk")}, executor(command));
    const Index bytes = made->bytes_per_token();
    sessions_.emplace(name, std::move(made));
    return {{"bytes_per_token", bytes}};
  }

  bench::Session& session(const json& command) {
    const std::string name = command.at("session").get<std::string>();
    const auto found = sessions_.find(name);
    expects(found != sessions_.end(), "no session \"", name, "\"");
    return *found->second;
  }

  // A plain read of memory, in so many streams side by side on every thread.
  json read(const json& command) {
    constexpr Index kBytes = Index{512} << 20;
    if (memory_.size() == 0) {
      memory_ = Buffer<float>(kBytes / Index{sizeof(float)});
      std::fill_n(memory_.data(), memory_.size(), 1.0f);
    }
    const Index streams = command.at("streams").get<Index>();
    expects(streams == 1 || streams == 4 || streams == 8, "reads of ", streams, " streams");
    bench::Laps laps;
    for (Index round = 0; round < rounds(command); ++round) {
      laps.run([&] {
        const auto memory = static_cast<const void*>(memory_.data());
        if (streams == 1) bench::read_memory<1>(memory, kBytes, executor(command));
        if (streams == 4) bench::read_memory<4>(memory, kBytes, executor(command));
        if (streams == 8) bench::read_memory<8>(memory, kBytes, executor(command));
      });
    }
    json result = laps.json();
    result["bytes"] = kBytes;
    return result;
  }

  // The case of the last command is cached, since its keys and values take long to make.
  json attention(const json& command) {
    json wanted = command;
    wanted.erase("rounds");
    if (wanted != attention_case_) {
      attention_.reset();
      attention_ = bench::make_attention({.heads = command.at("heads"),
                                          .kv_heads = command.at("kv_heads"),
                                          .head_dim = command.at("head_dim"),
                                          .keys = command.at("keys"),
                                          .rows = command.at("rows"),
                                          .cache = type_of(command, "cache")},
                                         executor(command));
      attention_case_ = wanted;
    }
    json result = attention_->run(rounds(command)).json();
    result["calls"] = attention_->calls();
    return result;
  }

  std::optional<model::Decoder> decoder_;
  std::map<std::string, std::unique_ptr<bench::Session>> sessions_;
  std::unique_ptr<bench::AttentionAlone> attention_;
  json attention_case_;
  Buffer<float> memory_;
};

}  // namespace

int main() {
  Participant participant;
  for (std::string line; std::getline(std::cin, line);) {
    json result;
    try {
      result = participant.answer(json::parse(line));
    } catch (const std::exception& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump() << std::endl;
  }
}
