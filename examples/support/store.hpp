// examples/support/store.hpp - the store of an example's keys and values, as options.
//
// Tested by   tests/examples/agreements.cmake, tests/examples/refusals.cmake
#pragma once

#include <decant/codec/scaled.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>
#include <decant/model/config.hpp>

#include "support/command_line.hpp"
#include "support/options.hpp"

#include <cstddef>
#include <string>

namespace examples {

inline constexpr Index kLargestPage = 1 << 20;

struct StoreOptions {
  std::string kind = "contiguous";
  Formats formats;
  Index page_tokens = 64;
  bool page_size_given = false;
  Index window = 0;
  Index sink_tokens = 0;
};

// The kind of store and its sizes; add_formats() declares the formats.
inline void add_store_kind(CommandLine& command, StoreOptions& options) {
  command.add("--store", "contiguous|paged|ring", "kind of KV cache (contiguous)",
              [&options](const std::string& text) {
                options.kind = text;
                const bool known = text == "contiguous" || text == "paged" || text == "ring";
                return known ? std::string()
                             : sentence("\"", text, "\" is not contiguous, paged or ring");
              });
  command.add("--page-size", "N", "tokens of a page, a multiple of 16 (64)",
              [&options](const std::string& text) {
                const auto tokens = parse<Index>(text);
                options.page_tokens = tokens.value_or(0);
                options.page_size_given = true;
                const bool fits = tokens && *tokens > 0 && *tokens <= kLargestPage &&
                                  *tokens % decant::kv::kPanelTokens == 0;
                return fits ? std::string()
                            : sentence("\"", text, "\" is not a multiple of 16 up to ",
                                       kLargestPage);
              });
  add_number(command, "--window", options.window,
             "tokens that a row sees, itself included (the model's)", 1);
  add_number(command, "--keep", options.sink_tokens,
             "attention sink tokens, seen beside a window (0)", 0);
}

inline void add_store_options(CommandLine& command, StoreOptions& options) {
  add_store_kind(command, options);
  add_formats(command, "--cache-type", options.formats,
              "format of the cache, or of keys:values (f32)");
}

// Refuses sizes that the kind of store does not have; `window` is the widest window of a layer, or
// 0.
inline void check(const StoreOptions& options, Index window) {
  decant::expects<UsageError>(!options.page_size_given || options.kind == "paged",
                              "--page-size: only a paged store has pages; give --store paged");
  decant::expects<UsageError>(options.sink_tokens == 0 || window > 0,
                              "--keep: every token is seen if there is no window; give --window");
  decant::expects<UsageError>(options.kind != "ring" || window > 0,
                              "--store: a ring needs a window in every layer; give --window");
}

// Gives the model the window asked for instead of its own.
inline void set_window(const StoreOptions& options, decant::model::Config& config) {
  if (options.window > 0) {
    config.windows.assign(static_cast<std::size_t>(config.layers), options.window);
  }
  config.sink_tokens = options.sink_tokens;
  checked("--window and --keep", [&] { decant::model::check(config); });
  check(options, config.widest_window());
}

// f(key codec, value codec). Programs are compiled for one format for both and for four mixed ones;
// stores of any two formats work.
template <class F>
decltype(auto) with_formats(const Formats& formats, F&& f) {
  namespace codec = decant::codec;
  using codec::Type;
  const auto is = [&](Type keys, Type values) {
    return formats.keys == keys && formats.values == values;
  };
  if (formats.keys == formats.values) {
    return codec::visit_cache(formats.keys, [&]<class C>(C) { return f(C{}, C{}); });
  }
  if (is(Type::f16, Type::int8)) return f(codec::F16{}, codec::Int8{});
  if (is(Type::f16, Type::int4)) return f(codec::F16{}, codec::Int4{});
  if (is(Type::int8, Type::f16)) return f(codec::Int8{}, codec::F16{});
  decant::expects<UsageError>(is(Type::int8, Type::int4), "--cache-type: ", name(formats),
                              " is none of f16:int8, f16:int4, int8:f16 and int8:int4");
  return f(codec::Int8{}, codec::Int4{});
}

// f(store) with a store for `capacity` tokens of a sequence, added at most `chunk` at a time.
template <class F>
decltype(auto) with_store(const StoreOptions& options, const decant::model::Config& config,
                          Index capacity, Index chunk, F&& f) {
  namespace kv = decant::kv;
  return with_formats(options.formats, [&]<class K, class V>(K, V) {
    const kv::Geometry geometry = config.geometry();
    if (options.kind == "paged") {
      kv::PagePool<K, V> pool(geometry, decant::ceil_div(capacity, options.page_tokens),
                              options.page_tokens);
      kv::Paged<K, V> store(pool);
      return f(store);
    }
    if (options.kind == "ring") {
      kv::Ring<K, V> store(geometry, config.widest_window(), chunk, config.sink_tokens);
      return f(store);
    }
    kv::Contiguous<K, V> store(geometry, capacity);
    return f(store);
  });
}

}  // namespace examples
