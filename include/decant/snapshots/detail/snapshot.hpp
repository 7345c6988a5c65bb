// decant/snapshots/detail/snapshot.hpp - definitions of snapshots/snapshot.hpp and
// snapshots/detail/snapshot_format.hpp that are no templates.
//
// Tested by   tests/snapshots/{snapshot,snapshot_fields}_test.cpp, tests/fuzz/snapshot_target.hpp
#pragma once

#include <decant/codec/scaled.hpp>
#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kv/cells.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/snapshots/detail/snapshot_format.hpp>
#include <decant/snapshots/snapshot.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::snapshots {

namespace detail {

// How safetensors calls the cells of a format.
constexpr std::string_view cell_dtype(codec::Type type) noexcept {
  switch (type) {
    case codec::Type::bf16:
      return "BF16";
    case codec::Type::f16:
      return "F16";
    case codec::Type::int8:
      return "I8";
    case codec::Type::int4:
      return "U8";
    case codec::Type::fp8_e4m3:
      return "F8_E4M3";
    case codec::Type::fp8_e5m2:
      return "F8_E5M2";
    default:
      return "F32";
  }
}

inline std::string layer_name(Index layer, std::string_view part) {
  return sentence("layers.", layer, ".", part);
}

template <template <class> class Cells>
RowSize row_size(codec::Type type, Index dim) {
  return codec::visit_cache(type, [&]<class C>(C) {
    return RowSize{Cells<C>{dim}.of_row(), codec::scales_of_row<C>(dim)};
  });
}
DECANT_IO_INLINE RowSize key_size(codec::Type type, const kv::Geometry& geometry) {
  return row_size<kv::KeyCells>(type, geometry.key_dim);
}
DECANT_IO_INLINE RowSize value_size(codec::Type type, const kv::Geometry& geometry) {
  return row_size<kv::ValueCells>(type, geometry.value_dim);
}

inline std::string text_of(const kv::Geometry& geometry) {
  return sentence(geometry.layers, " layers, ", geometry.heads, " heads, keys of ",
                  geometry.key_dim, ", values of ", geometry.value_dim);
}

DECANT_IO_INLINE files::SealedWriter::Metadata metadata_of(const StoreShape& shape,
                                                           std::string_view format,
                                                           std::string_view model) {
  return {{"format", std::string(format)},
          {"version", std::string(kSnapshotVersion)},
          {"model", std::string(model)},
          {"layers", std::to_string(shape.geometry.layers)},
          {"heads", std::to_string(shape.geometry.heads)},
          {"key_dim", std::to_string(shape.geometry.key_dim)},
          {"value_dim", std::to_string(shape.geometry.value_dim)},
          {"keys", std::string(codec::name(shape.keys))},
          {"values", std::string(codec::name(shape.values))},
          {"kept", std::to_string(shape.sink_tokens)}};
}

inline std::vector<Index> scales_shape(const kv::Geometry& geometry, Index tokens,
                                       const RowSize& row) {
  if (row.scales == 1) return {geometry.heads, tokens};
  return {geometry.heads, tokens, row.scales};
}

DECANT_IO_INLINE std::vector<files::SealedWriter::Entry> entries_of(const StoreShape& shape) {
  const kv::Geometry& geometry = shape.geometry;
  std::vector<files::SealedWriter::Entry> entries = {{"tokens", "I32", {shape.end}}};
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    const Index tokens = shape.layers[static_cast<std::size_t>(layer)].tokens();
    const auto add = [&](std::string_view part, std::string_view dtype,
                         std::vector<Index> extents) {
      entries.push_back({layer_name(layer, part), dtype, std::move(extents)});
    };
    const RowSize key = key_size(shape.keys, geometry);
    const RowSize value = value_size(shape.values, geometry);
    add("keys", cell_dtype(shape.keys), {geometry.heads, tokens, key.cells});
    add("values", cell_dtype(shape.values), {geometry.heads, tokens, value.cells});
    if (key.scales > 0) add("key_scales", "F32", scales_shape(geometry, tokens, key));
    if (value.scales > 0) add("value_scales", "F32", scales_shape(geometry, tokens, value));
  }
  return entries;
}

}  // namespace detail

DECANT_IO_INLINE Snapshot Snapshot::open(const std::filesystem::path& path) {
  files::MappedFile file(path);
  Snapshot result = parse(file.bytes(), files::printable_path(path));
  result.mapped_.emplace(std::move(file));
  return result;
}

DECANT_IO_INLINE Snapshot Snapshot::parse(std::span<const std::byte> bytes, std::string name) {
  return Snapshot(files::parse_sealed(bytes, std::move(name)), detail::kSnapshot);
}

DECANT_IO_INLINE const std::string& Snapshot::field(std::string_view name) const {
  const auto found = file_.metadata().find(name);
  expects<FormatError>(found != file_.metadata().end(), file_.name(), ": has no field ", name);
  return found->second;
}

DECANT_IO_INLINE Index Snapshot::number(std::string_view name, Index least) const {
  const std::string& text = field(name);
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  expects<FormatError>(error == std::errc{} && end == text.data() + text.size() && value >= least,
                       file_.name(), ": ", name, " is \"", files::printable(text),
                       "\", not a number of at least ", least);
  return value;
}

DECANT_IO_INLINE codec::Type Snapshot::type(std::string_view name) const {
  const auto parsed = codec::parse(field(name));
  expects<FormatError>(parsed && !codec::is_block(*parsed), file_.name(), ": ", name, " in \"",
                       files::printable(field(name)), "\", a format that is not known here");
  return *parsed;
}

DECANT_IO_INLINE const files::Tensor& Snapshot::tensor(const std::string& name,
                                                       std::string_view dtype,
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

DECANT_IO_INLINE Snapshot::Snapshot(files::Safetensors file, std::string_view format)
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

DECANT_IO_INLINE detail::SavedLayer Snapshot::read_layer(Index layer) const {
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

DECANT_IO_INLINE void Snapshot::check_store(const detail::StoreShape& store, std::string_view model,
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
            ": has the first ", sink_tokens_, " tokens, the store has ", store.sink_tokens);
  }
}

}  // namespace decant::inline DECANT_ABI::snapshots
