// decant/snapshots/snapshot.hpp - the keys and values of a sequence in a file, and back in any
// store.
//
// Cells and scales are written and restored bit for bit, so decoding from a restored store gives
// the bits that decoding from the saved one would have given. Rows lie in the order of tokens,
// whatever pages or rings they came from or go to.
//
// Tested by   tests/snapshots/{snapshot,snapshot_fields}_test.cpp, tests/fuzz/snapshot_target.hpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/panel.hpp>
#include <decant/kv/store.hpp>
#include <decant/snapshots/detail/snapshot_format.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::snapshots {

// Writes what a store holds of the sequence `tokens` to a file, which replaces the old one when it
// is complete. `model` names the model that computed it: only a store of that model takes it back.
//
// Shape    tokens is [store.end()]
// Errors   std::invalid_argument (another number of tokens, a name that is not UTF-8),
//          std::system_error naming the path, std::bad_alloc; the old file is untouched then
// Cost     every cell is read and written once; memory for the rows of one layer
template <kv::Store S>
void save_snapshot(const std::filesystem::path& path, const S& store, std::span<const Token> tokens,
                   std::string_view model) {
  expects(std::ssize(tokens) == store.end(), "snapshots::save_snapshot: ", tokens.size(),
          " tokens, the store holds ", store.end());
  expects(!files::find_invalid_utf8(model),
          "snapshots::save_snapshot: the name of the model is not UTF-8");
  const detail::StoreShape shape = detail::shape_of(store);
  files::SealedWriter writer(path, detail::metadata_of(shape, detail::kSnapshot, model),
                             detail::entries_of(shape));
  writer.write(std::as_bytes(tokens));
  detail::write_rows(writer, store);
  writer.commit();
}

// A snapshot that was opened and verified. Move-only.
//
// Errors   FormatError naming the file, and what is wrong in it
// Cost     opening reads the file once
// Threads  const access may overlap
class Snapshot {
 public:
  static Snapshot open(const std::filesystem::path& path);
  static Snapshot parse(std::span<const std::byte> bytes, std::string name);

  const kv::Geometry& geometry() const noexcept { return geometry_; }
  codec::Type keys() const noexcept { return keys_; }
  codec::Type values() const noexcept { return values_; }
  const std::string& model() const noexcept { return model_; }
  std::span<const Token> tokens() const noexcept { return tokens_; }
  // The first position that a layer has, beside those of the first sink_tokens() tokens.
  Position begin(Index layer) const noexcept { return saved(layer).held.begin; }
  Index sink_tokens() const noexcept { return sink_tokens_; }

  // The fewest tokens above none that restore() could fill a store of this kind with: the file of a
  // ring lacks the tokens before a window.
  template <kv::Store S>
  Position fewest(const S& store) const {
    Position fewest = 1;
    for (Index layer = 0; layer < geometry_.layers; ++layer) {
      const Index window = store.window(layer);
      if (begin(layer) > 0) {
        fewest =
            std::max(fewest, window == 0 ? std::ssize(tokens_) + 1 : begin(layer) + window - 1);
      }
    }
    return fewest;
  }

  // Fills an empty store with the sequence, or with its first `end` tokens.
  //
  // Errors   std::invalid_argument naming what differs: the model, the shape, the formats, or a
  //          window that reaches further back than what was saved; CacheFull; the store is empty
  //          then
  // Cost     every cell is read and written once, and every position of every head is looked at
  template <kv::Store S>
  void restore(S& store, std::string_view model, Position end) const;
  template <kv::Store S>
  void restore(S& store, std::string_view model) const {
    restore(store, model, std::ssize(tokens_));
  }

 private:
  friend class PrefixSnapshot;
  Snapshot(files::Safetensors file, std::string_view format);

  const std::string& field(std::string_view name) const;
  Index number(std::string_view name, Index least) const;
  codec::Type type(std::string_view name) const;
  const files::Tensor& tensor(const std::string& name, std::string_view dtype,
                              std::span<const Index> shape) const;
  detail::SavedLayer read_layer(Index layer) const;
  const detail::SavedLayer& saved(Index layer) const noexcept {
    return layers_[static_cast<std::size_t>(layer)];
  }
  void check_store(const detail::StoreShape& store, std::string_view model, Position end) const;

  template <kv::Store S>
  void append(S& store, Range positions) const;
  template <kv::Store S>
  void put_rows(S& store, Index layer, Index head, Range positions) const;

  files::Safetensors file_;
  std::optional<files::MappedFile> mapped_;
  kv::Geometry geometry_;
  codec::Type keys_ = codec::Type::f32, values_ = codec::Type::f32;
  std::string model_;
  Index sink_tokens_ = 0;
  std::vector<Token> tokens_;
  std::vector<detail::SavedLayer> layers_;
};

template <kv::Store S>
void Snapshot::put_rows(S& store, Index layer, Index head, Range positions) const {
  const kv::PanelLayout<typename S::Keys, typename S::Values> layout(geometry_);
  detail::HeadRows<S> row(geometry_, 1);
  for (Position at = positions.begin; at < positions.end; ++at) {
    const std::optional<Index> token = saved(layer).held.place(at);
    if (!token) continue;
    saved(layer).read(head, *token, row);
    const Position to = store.end() + at - positions.begin;
    std::byte* panel = store.panel(layer, head, to);
    layout.keys().put_stored(panel, to % kv::kPanelTokens, row.keys.row(0));
    layout.values().put_stored(panel, to % kv::kPanelTokens, row.values.row(0));
  }
}

// Some positions of the file behind what the store holds, as many as it takes at once.
template <kv::Store S>
void Snapshot::append(S& store, Range positions) const {
  store.reserve(positions.size());
  for (Index layer = 0; layer < geometry_.layers; ++layer) {
    for (Index head = 0; head < geometry_.heads; ++head) put_rows(store, layer, head, positions);
  }
  store.publish(positions.size());
}

template <kv::Store S>
void Snapshot::restore(S& store, std::string_view model, Position end) const {
  check_store(detail::shape_of(store), model, end);
  Position first = 0;
  for (Index layer = 0; layer < geometry_.layers; ++layer) first = std::max(first, begin(layer));
  try {
    while (store.end() < end) {
      append(store, {store.end(), store.end() + std::min(store.chunk(), end - store.end())});
    }
  } catch (...) {
    store.rewind(0);
    throw;
  }
  if constexpr (requires { store.drop_before(first); }) store.drop_before(first);
}

}  // namespace decant::inline DECANT_ABI::snapshots

#ifndef DECANT_COMPILED_IO
#include <decant/snapshots/detail/snapshot.hpp>
#endif
