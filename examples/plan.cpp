// plan: what a cache costs, and how fast a model can be, before anything is allocated or run.
//
// You learn that both are arithmetic. kv::Geometry says what a token's keys and values take, and,
// to the byte, what a store allocates, in whole panels of 16 tokens. model::Cost says what a step
// reads and computes and, from two speeds of a machine, the least time that it takes.
#include <decant/kv/geometry.hpp>
#include <decant/model/cost.hpp>

#include <decant/codec/block.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/kv/ring.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"
#include "support/profile.hpp"
#include "support/store.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

namespace {

using namespace decant;
using examples::counted;
using examples::grouped;

struct Options {
  std::string model;
  Index layers = 0, kv_heads = 0, head_dim = 0;
  examples::StoreOptions store;
  Index tokens = 0, batch = 1, budget = 0;
  // Only for a prediction.
  Index hidden_size = 0, heads = 0, intermediate_size = 0, vocabulary = 0;
  std::optional<codec::Type> weights;
  model::Machine machine;
  bool measure = false;
  Index threads = examples::default_threads();

  bool predicts() const { return measure || machine.bytes_per_second > 0; }
};

// The options that a prediction is based on.
void declare_machine(examples::CommandLine& command, Options& options) {
  command.add("--weights", "f32|bf16|f16|q8_0|q4_0", "format of the weights",
              [&options](const std::string& text) {
                options.weights = examples::parse_type(text);
                const bool known = options.weights && !codec::is_scaled(*options.weights);
                return known ? std::string()
                             : sentence("\"", text, "\" is not f32, bf16, f16, q8_0 or q4_0");
              });
  const auto speed = [&command](const std::string& name, double& value, const std::string& about) {
    return examples::add_number(command, name, value, about, 1);
  };
  auto bytes = speed("--bytes-per-second", options.machine.bytes_per_second,
                     "the machine's memory bandwidth, all threads");
  auto flops = speed("--flops-per-second", options.machine.flops_per_second,
                     "its arithmetic; a multiply-add counts as two");
  auto measure = command.add_flag("--measure", options.measure, "measure both on this machine");
  bytes.needs(flops).excludes(measure);
  flops.needs(bytes);
  examples::add_threads(command, options.threads).needs(measure);
}

void declare(examples::CommandLine& command, Options& options) {
  const auto number = [&command](const std::string& name, Index& value, const std::string& about) {
    return examples::add_number(command, name, value, about, 1);
  };
  const auto model = command.add_nonempty_text(
      "--model", options.model, "a folder with a config.json, or a GGUF file", "FOLDER-OR-FILE");
  auto layers = number("--layers", options.layers, "layers of the model");
  auto heads = number("--kv-heads", options.kv_heads, "key and value heads of a layer");
  auto dim = number("--head-dim", options.head_dim, "elements of a key and of a value");
  examples::add_formats(command, "--dtype", options.store.formats,
                        "the format of the cache, or of keys:values")
      .required();
  examples::add_store_kind(command, options.store);
  number("--tokens", options.tokens, "tokens of a sequence (what the model was made for)");
  number("--batch", options.batch, "sequences (1)");
  number("--budget", options.budget, "bytes to fill");
  layers.needs(heads).needs(dim).excludes(model);
  heads.needs(layers).excludes(model);
  dim.needs(layers).excludes(model);
  number("--heads", options.heads, "query heads of a layer").needs(layers);
  number("--width", options.hidden_size, "the hidden size").needs(layers);
  number("--feed-forward", options.intermediate_size, "the intermediate size").needs(layers);
  number("--vocabulary", options.vocabulary, "tokens that the model knows").needs(layers);
  declare_machine(command, options);
}

// The configuration of the given model, which also sets the length of sequences, or of the given
// shape; of a shape only the geometry counts unless its other sizes are given too.
model::Config config_of(Options& options) {
  model::Config config;
  if (options.model.empty()) {
    expects<examples::UsageError>(options.layers > 0, "give --model, or --layers, --kv-heads and ",
                                  "--head-dim");
    config = {.vocabulary = options.vocabulary,
              .layers = options.layers,
              .hidden_size = options.hidden_size,
              .heads = options.heads,
              .kv_heads = options.kv_heads,
              .key_dim = options.head_dim,
              .value_dim = options.head_dim,
              .intermediate_size = options.intermediate_size,
              .max_positions = 1,
              .rope = std::nullopt};  // neither costs anything
  } else {
    config = examples::read_config(options.model);
    if (options.tokens == 0) options.tokens = config.max_positions;
  }
  if (options.store.window == 0) options.store.window = config.widest_window();
  return config;
}

// A line of the table.
void row(const std::string& label, const std::string& payload, const std::string& panels,
         const std::string& note) {
  std::cout << std::left << std::setw(24) << label << std::right << std::setw(20) << payload;
  if (!panels.empty()) std::cout << std::setw(20) << panels;
  std::cout << (note.empty() ? "" : "   ") << note << '\n';
}

// Bytes of keys and values alone, and of a store that holds them in whole panels.
struct Cost {
  Index payload, panels;
};
struct Bill {
  Cost token, granule, sequence, batch;
};

// Tokens that a store takes memory for at once.
Index granule(const examples::StoreOptions& store) {
  return store.kind == "paged" ? store.page_tokens : kv::kPanelTokens;
}

// What a store of the given kind allocates for a sequence; a ring is made for steps of one token.
template <codec::Codec K, codec::Codec V>
Index allocated(const kv::Geometry& geometry, const examples::StoreOptions& store, Index tokens) {
  if (store.kind == "ring")
    return kv::Ring<K, V>::bytes_for(geometry, store.window, 1, store.sink_tokens);
  return geometry.bytes<K, V>(round_up(tokens, granule(store)));
}

template <codec::Codec K, codec::Codec V>
Bill bill(const kv::Geometry& geometry, const Options& options) {
  const bool ring = options.store.kind == "ring";
  const auto cost = [&](Index tokens) {
    const Index most = checked_sum(options.store.window, options.store.sink_tokens);
    const Index held = ring ? std::min(tokens, most) : tokens;
    return Cost{geometry.payload_bytes<K, V>(held),
                allocated<K, V>(geometry, options.store, tokens)};
  };
  const Cost sequence = cost(options.tokens);
  return {.token = cost(1),
          .granule = cost(granule(options.store)),
          .sequence = sequence,
          .batch = {checked_product(sequence.payload, options.batch),
                    checked_product(sequence.panels, options.batch)}};
}

void print_costs(const kv::Geometry& geometry, const Options& options, const Bill& bill) {
  std::cout << counted(geometry.layers, "layer") << ", "
            << counted(geometry.heads, "key and value head") << ", keys of "
            << grouped(geometry.key_dim) << " and values of " << grouped(geometry.value_dim)
            << " elements in " << examples::name(options.store.formats) << "\n\n";
  row("", "keys and values", "allocated", "");
  row("bytes per token", grouped(bill.token.payload), "", "");
  if (options.tokens == 0) return;
  row("bytes per sequence", grouped(bill.sequence.payload), grouped(bill.sequence.panels),
      "of " + counted(options.tokens, "token"));
  row("bytes per batch", grouped(bill.batch.payload), grouped(bill.batch.panels),
      "of " + counted(options.batch, "sequence"));
}

void print_budget(const Options& options, const Bill& bill) {
  const Index budget = options.budget;
  std::cout << "\nA budget of " << counted(budget, "byte") << " holds\n";
  if (options.store.kind != "ring") {
    row("tokens", grouped(budget / bill.token.payload),
        grouped(budget / bill.granule.panels * granule(options.store)), "in one sequence");
  }
  if (options.tokens == 0) return;
  row("sequences", grouped(budget / bill.sequence.payload), grouped(budget / bill.sequence.panels),
      "of " + counted(options.tokens, "token"));
}

// Bytes of one weight and its part of a scale.
double bytes_of(codec::Type weights) {
  constexpr double kWeights = codec::kBlockWeights;
  if (weights == codec::Type::q8_0) return sizeof(codec::Q8_0::Block) / kWeights;
  if (weights == codec::Type::q4_0) return sizeof(codec::Q4_0::Block) / kWeights;
  return weights == codec::Type::f32 ? 4 : 2;
}

void check(const Options& options) {
  examples::check(options.store, options.store.window);
  expects<examples::UsageError>(options.predicts() || !options.weights,
                                "--weights: nothing is predicted without --bytes-per-second and ",
                                "--flops-per-second, or --measure");
}

void check_prediction(const Options& options) {
  const bool sizes = options.hidden_size > 0 && options.heads > 0 &&
                     options.intermediate_size > 0 && options.vocabulary > 0;
  expects<examples::UsageError>(!options.model.empty() || sizes, "a prediction needs --heads, ",
                                "--width, --feed-forward and --vocabulary, or --model");
  expects<examples::UsageError>(options.weights.has_value(),
                                "a prediction needs the format of the weights; give --weights");
  expects<examples::UsageError>(options.tokens > 0, "a prediction needs --tokens");
  expects<examples::UsageError>(options.tokens <= Index{1} << 31, "--tokens: a prediction for ",
                                options.tokens, ", beyond 2^31");
}

model::Cost cost_of(model::Config config, const Options& options, double token_bytes) {
  const bool own = options.store.window == config.widest_window();
  if (!own) config.windows.assign(static_cast<std::size_t>(config.layers), options.store.window);
  const model::Cost counts(config, 1, token_bytes);
  const double weights = counts.layer_weights() + counts.output_weights();
  return {config, weights * bytes_of(*options.weights), token_bytes};
}

std::string fixed(double number, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << number;
  return text.str();
}

void print_times(const model::Cost& cost, const Options& options, const model::Machine& machine) {
  const auto line = [&](const std::string& label, const model::Work& work, Index tokens,
                        const std::string& note) {
    const double seconds = model::least_seconds(work, machine);
    row(label, fixed(seconds * 1e3, 2), fixed(static_cast<double>(tokens) / seconds, 2), note);
  };
  const std::string length = counted(options.tokens, "token");
  row("", "milliseconds", "tokens/s", "");
  line("prefill", cost.prefill(options.tokens), options.tokens, "of " + length);
  line("output token", cost.decode(1, options.tokens), 1, "behind " + length);
  if (options.batch == 1) return;
  line("output tokens", cost.decode(options.batch, options.tokens), options.batch,
       "of " + counted(options.batch, "sequence"));
}

// Where the bound changes from memory to arithmetic, and from weights to keys and values.
void print_bounds(const model::Cost& cost, const Options& options, const model::Machine& machine) {
  const double many =
      std::max(1.0, std::ceil(cost.compute_bound_sequences(options.tokens, machine)));
  const bool never = std::isinf(many);
  row("compute-bound from", never ? "never" : fixed(many, 0), "",
      never ? "keys and values bound large batches" : "sequences");
  row("heavy context", fixed(cost.heavy_context(), 0), "",
      "tokens that rows see weigh as much as the weights");
}

void predict(const model::Cost& cost, const Options& options) {
  model::Machine machine = options.machine;
  if (options.measure) {
    ThreadPool threads(options.threads);
    const examples::Bounds bounds = examples::measure_bounds(threads);
    machine = {bounds.bytes, bounds.flops};
    if (bounds.share < 0.9) {
      std::cerr << "note: other programs ran while the machine was measured, and left its threads "
                << fixed(100 * bounds.share, 0) << " % of the time; the figures are the best of "
                << examples::kMeasuredTurns << " turns\n";
    }
  }
  std::cout << "\nWeights of " << fixed(cost.weight_bytes() / 1e9, 3) << " GB in "
            << codec::name(*options.weights) << "; a machine of "
            << fixed(machine.bytes_per_second / 1e9, 1) << " GB/s and "
            << fixed(machine.flops_per_second / 1e9, 1) << " GFLOP/s takes at least\n\n";
  print_times(cost, options, machine);
  print_bounds(cost, options, machine);
}

void plan(Options options) {
  const model::Config config = config_of(options);
  check(options);
  if (options.predicts()) check_prediction(options);
  const kv::Geometry geometry = config.geometry();
  const Bill costs = examples::checked("the sizes", [&] {
    return codec::visit_cache(options.store.formats.keys, [&]<class K>(K) {
      return codec::visit_cache(options.store.formats.values,
                                [&]<class V>(V) { return bill<K, V>(geometry, options); });
    });
  });
  std::optional<model::Cost> cost;
  if (options.predicts()) {
    cost = examples::checked("the sizes", [&] {
      return cost_of(config, options, static_cast<double>(costs.token.payload));
    });
  }
  print_costs(geometry, options, costs);
  if (options.budget > 0) print_budget(options, costs);
  if (cost) predict(*cost, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command(
      std::filesystem::path{argv[0]}.filename().string(),
      "Computes the size of a KV cache, and the least time of prefill and decode.");
  declare(command, options);
  return command.run(argc, argv, [&] { plan(options); });
}
