// kv_memory: what a cache costs, before anything is allocated.
//
// You learn that memory is arithmetic: kv::Geometry says what a token's keys and values take, and,
// to the byte, what a store allocates, which holds whole panels of 16 tokens.
#include <decant/kv/geometry.hpp>

#include <decant/codec/scaled.hpp>
#include <decant/kv/ring.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"
#include "support/store.hpp"

#include <algorithm>
#include <iomanip>
#include <iostream>
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
};

void declare(examples::CommandLine& command, Options& options) {
  const auto number = [&command](const std::string& name, Index& value, const std::string& about) {
    return examples::add_number(command, name, value, about, 1);
  };
  const auto model = command.add_nonempty_text(
      "--model", options.model, "a folder with a config.json, or a GGUF file", "FOLDER-OR-FILE");
  auto layers = number("--layers", options.layers, "layers of the model");
  auto heads = number("--kv-heads", options.kv_heads, "key and value heads of a layer");
  auto dim = number("--head-dim", options.head_dim, "numbers of a key and of a value");
  examples::add_formats(command, "--dtype", options.store.formats,
                        "the format of a number, or those of keys:values")
      .required();
  examples::add_store_kind(command, options.store);
  number("--tokens", options.tokens, "tokens of a sequence (what the model was made for)");
  number("--batch", options.batch, "sequences (1)");
  number("--budget", options.budget, "bytes to fill");
  layers.needs(heads).needs(dim).excludes(model);
  heads.needs(layers).excludes(model);
  dim.needs(layers).excludes(model);
}

// The shape asked for; a model also says how long its sequences get.
kv::Geometry geometry_of(Options& options) {
  if (options.model.empty()) {
    expects<examples::UsageError>(options.layers > 0, "give --model, or --layers, --kv-heads and ",
                                  "--head-dim");
    return {options.layers, options.kv_heads, options.head_dim, options.head_dim};
  }
  const model::Config config = examples::read_config(options.model);
  if (options.store.window == 0) options.store.window = config.widest_window();
  if (options.tokens == 0) options.tokens = config.max_positions;
  return config.geometry();
}

// A line of the table.
void row(const std::string& label, const std::string& numbers, const std::string& panels,
         const std::string& note) {
  std::cout << std::left << std::setw(24) << label << std::right << std::setw(20) << numbers;
  if (!panels.empty()) std::cout << std::setw(20) << panels;
  std::cout << (note.empty() ? "" : "   ") << note << '\n';
}

// Bytes of keys and values alone, and of a store that holds them in whole panels.
struct Cost {
  Index numbers, panels;
};
struct Bill {
  Cost token, granule, sequence, batch;
};

// Tokens that a store takes memory for at once.
Index granule(const examples::StoreOptions& store) {
  return store.kind == "paged" ? store.page_tokens : kv::kPanelTokens;
}

// What a store of the kind asked for allocates for a sequence. A ring takes one token at a time.
template <codec::Codec K, codec::Codec V>
Index allocated(const kv::Geometry& geometry, const examples::StoreOptions& store, Index tokens) {
  if (store.kind == "ring")
    return kv::Ring<K, V>::bytes_for(geometry, store.window, 1, store.kept_tokens);
  return geometry.bytes<K, V>(round_up(tokens, granule(store)));
}

template <codec::Codec K, codec::Codec V>
Bill bill(const kv::Geometry& geometry, const Options& options) {
  const bool ring = options.store.kind == "ring";
  const auto cost = [&](Index tokens) {
    const Index most = checked_sum(options.store.window, options.store.kept_tokens);
    const Index held = ring ? std::min(tokens, most) : tokens;
    return Cost{geometry.payload_bytes<K, V>(held),
                allocated<K, V>(geometry, options.store, tokens)};
  };
  const Cost sequence = cost(options.tokens);
  return {.token = cost(1),
          .granule = cost(granule(options.store)),
          .sequence = sequence,
          .batch = {checked_product(sequence.numbers, options.batch),
                    checked_product(sequence.panels, options.batch)}};
}

void print_costs(const kv::Geometry& geometry, const Options& options, const Bill& bill) {
  std::cout << counted(geometry.layers, "layer") << ", "
            << counted(geometry.heads, "key and value head") << ", keys of "
            << grouped(geometry.key_dim) << " and values of " << grouped(geometry.value_dim)
            << " numbers in " << examples::name(options.store.formats) << "\n\n";
  row("", "keys and values", "allocated", "");
  row("bytes per token", grouped(bill.token.numbers), "", "");
  if (options.tokens == 0) return;
  row("bytes per sequence", grouped(bill.sequence.numbers), grouped(bill.sequence.panels),
      "of " + counted(options.tokens, "token"));
  row("bytes per batch", grouped(bill.batch.numbers), grouped(bill.batch.panels),
      "of " + counted(options.batch, "sequence"));
}

void print_budget(const Options& options, const Bill& bill) {
  const Index budget = options.budget;
  std::cout << "\nA budget of " << counted(budget, "byte") << " holds\n";
  if (options.store.kind != "ring") {
    row("tokens", grouped(budget / bill.token.numbers),
        grouped(budget / bill.granule.panels * granule(options.store)), "in one sequence");
  }
  if (options.tokens == 0) return;
  row("sequences", grouped(budget / bill.sequence.numbers), grouped(budget / bill.sequence.panels),
      "of " + counted(options.tokens, "token"));
}

void kv_memory(Options options) {
  const kv::Geometry geometry = geometry_of(options);
  expects<examples::UsageError>(options.store.kind != "ring" || options.store.window > 0,
                                "--store: a ring needs a window; give --window");
  expects<examples::UsageError>(options.store.window > 0 || options.store.kept_tokens == 0,
                                "--keep: every token is kept where no window is; give --window");
  const Bill costs = examples::checked("the sizes", [&] {
    return codec::visit_cache(options.store.formats.keys, [&]<class K>(K) {
      return codec::visit_cache(options.store.formats.values,
                                [&]<class V>(V) { return bill<K, V>(geometry, options); });
    });
  });
  print_costs(geometry, options, costs);
  if (options.budget > 0) print_budget(options, costs);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("kv_memory", "Says what a cache of keys and values takes.");
  declare(command, options);
  return command.run(argc, argv, [&] { kv_memory(options); });
}
