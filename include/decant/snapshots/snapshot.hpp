// decant/snapshots/snapshot.hpp - the keys and values of a sequence in a file, and back in any
// store.
//
// Cells and scales go out as they lie and come back as they lay: what is decoded from a restored
// store has the bits of what would have been decoded from the saved one. Rows lie in the order of
// tokens, whatever pages or rings they came from or go to.
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
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline v0::snapshots {

// Writes what a store holds of the sequence `tokens` to a file, in the place of what was there when
// it is whole. `model` names what computed it: an empty store of that model alone takes it back.
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

// A snapshot that was opened and found whole. Move-only.
//
// Errors   FormatError naming the file, and what is wrong in it
// Cost     opening reads the file once
// Threads  const access may overlap
class Snapshot {
 public:
  static Snapshot open(const std::filesystem::path& path) {
    files::MappedFile file(path);
    Snapshot result = parse(file.bytes(), files::printable_path(path));
    result.mapped_.emplace(std::move(file));
    return result;
  }
  static Snapshot parse(std::span<const std::byte> bytes, std::string name) {
    return Snapshot(files::parse_sealed(bytes, std::move(name)), detail::kSnapshot);
  }

  const kv::Geometry& geometry() const noexcept { return geometry_; }
  codec::Type keys() const noexcept { return keys_; }
  codec::Type values() const noexcept { return values_; }
  const std::string& model() const noexcept { return model_; }
  std::span<const Token> tokens() const noexcept { return tokens_; }
  // The first position that a layer of the shape has, but for those of the first sink_tokens()
  // tokens.
  Position begin(Index layer) const noexcept { return saved(layer).held.begin; }
  Index sink_tokens() const noexcept { return sink_tokens_; }

  // The fewest tokens, beside none, that restore() could fill a store of this kind with: a ring's
  // file lacks the tokens before a window.
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

inline const std::string& Snapshot::field(std::string_view name) const {
  const auto found = file_.metadata().find(name);
  expects<FormatError>(found != file_.metadata().end(), file_.name(), ": has no field ", name);
  return found->second;
}

inline Index Snapshot::number(std::string_view name, Index least) const {
  const std::string& text = field(name);
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  expects<FormatError>(error == std::errc{} && end == text.data() + text.size() && value >= least,
                       file_.name(), ": ", name, " is \"", files::printable(text),
                       "\", not a number of at least ", least);
  return value;
}

inline codec::Type Snapshot::type(std::string_view name) const {
  const auto parsed = codec::parse(field(name));
  expects<FormatError>(parsed && !codec::is_block(*parsed), file_.name(), ": ", name, " in \"",
                       files::printable(field(name)), "\", a format that is not known here");
  return *parsed;
}

inline const files::Tensor& Snapshot::tensor(const std::string& name, std::string_view dtype,
                                             std::span<const Index> shape) const {
  const auto found = file_.tensors().find(name);
  expects<FormatError>(found != file_.tensors().end(), file_.name(), ": has no ", name);
  const files::Tensor& tensor = found->second;
  expects<FormatError>(tensor.dtype->name == dtype && std::ranges::equal(tensor.shape, shape),
                       file_.name(), ": ", name, " is ", tensor.dtype->name, " ",
                       files::shape_text(tensor.shape), ", not ", dtype, " ",
                       files::shape_text(shape));
  return tensor;
}

inline Snapshot::Snapshot(files::Safetensors file, std::string_view format)
    : file_(std::move(file)) {
  expects<FormatError>(field("format") == format, file_.name(), ": is no ", format);
  expects<FormatError>(field("version") == detail::kSnapshotVersion, file_.name(),
                       ": is a snapshot of version ", files::printable(field("version")), ", not ",
                       detail::kSnapshotVersion);
  geometry_ = {.layers = number("layers", 1),
               .heads = number("heads", 1),
               .key_dim = number("key_dim", 1),
               .value_dim = number("value_dim", 1)};
  keys_ = type("keys");
  values_ = type("values");
  model_ = field("model");
  sink_tokens_ = number("kept", 0);
  const auto found = file_.tensors().find("tokens");
  expects<FormatError>(found != file_.tensors().end() && found->second.dtype->name == "I32" &&
                           found->second.shape.size() == 1,
                       file_.name(), ": has no list of tokens");
  tokens_.resize(static_cast<std::size_t>(found->second.shape[0]));
  if (!tokens_.empty()) {
    std::memcpy(tokens_.data(), found->second.data.data(), found->second.data.size());
  }
  for (Index layer = 0; layer < geometry_.layers; ++layer) layers_.push_back(read_layer(layer));
}

inline detail::SavedLayer Snapshot::read_layer(Index layer) const {
  const std::string name = detail::layer_name(layer, "keys");
  const auto found = file_.tensors().find(name);
  expects<FormatError>(found != file_.tensors().end() && found->second.shape.size() == 3,
                       file_.name(), ": has no ", name);
  const Index held = found->second.shape[1];
  const Position end = std::ssize(tokens_);
  expects<FormatError>(held == end || (held >= sink_tokens_ && held < end), file_.name(), ": ",
                       name, " has ", held, " tokens of ", end, ", of which the first ",
                       sink_tokens_, " are attention sinks");
  const auto rows = [&](std::string_view part, std::string_view dtype,
                        const std::vector<Index>& shape) {
    return tensor(detail::layer_name(layer, part), dtype, shape).data;
  };
  const Index heads = geometry_.heads;
  const detail::RowSize key = detail::key_size(keys_, geometry_);
  const detail::RowSize value = detail::value_size(values_, geometry_);
  const auto scales = [&](std::string_view part, const detail::RowSize& row) {
    return row.scales == 0 ? std::span<const std::byte>()
                           : rows(part, "F32", detail::scales_shape(geometry_, held, row));
  };
  return {.held = held == end ? detail::Held{0, end, 0}
                              : detail::Held{end - held + sink_tokens_, end, sink_tokens_},
          .keys = rows("keys", detail::cell_dtype(keys_), {heads, held, key.cells}),
          .values = rows("values", detail::cell_dtype(values_), {heads, held, value.cells}),
          .key_scales = scales("key_scales", key),
          .value_scales = scales("value_scales", value)};
}

inline void Snapshot::check_store(const detail::StoreShape& store, std::string_view model,
                                  Position end) const {
  expects(store.end == 0, "snapshots::Snapshot::restore: the store holds ", store.end, " tokens");
  expects(end >= 0 && end <= std::ssize(tokens_), "snapshots::Snapshot::restore: ", end,
          " tokens of ", tokens_.size());
  const auto differs = [&](bool same, std::string_view what, std::string_view has,
                           std::string_view wanted) {
    expects(same, file_.name(), ": ", what, " ", has, ", not ", wanted);
  };
  differs(model_ == model, "was computed by other weights or another configuration,",
          files::printable(model_), files::printable(model));
  differs(geometry_ == store.geometry, "has", detail::text_of(geometry_),
          detail::text_of(store.geometry));
  differs(keys_ == store.keys, "has keys in", codec::name(keys_), codec::name(store.keys));
  differs(values_ == store.values, "has values in", codec::name(values_),
          codec::name(store.values));
  expects<CacheFull>(end <= store.capacity, file_.name(), ": ", end, " tokens, for a store of ",
                     store.capacity);
  for (Index layer = 0; layer < geometry_.layers; ++layer) {
    const Index window = store.windows[static_cast<std::size_t>(layer)];
    const Position wanted = window == 0 ? 0 : std::max<Position>(0, end + 1 - window);
    expects(begin(layer) <= wanted, file_.name(), ": layer ", layer, " begins at position ",
            begin(layer), ", the store looks back to ", wanted);
    expects(begin(layer) == 0 || store.sink_tokens <= sink_tokens_, file_.name(),
            ": has the first ", sink_tokens_, " tokens, the store keeps ", store.sink_tokens);
  }
}

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

}  // namespace decant::inline v0::snapshots
