// decant/kv/layered.hpp - one sequence in two stores: of layers with a window, and of the others.
//
// In many models most layers see a window of tokens and a few see all. With two stores, the former
// use a ring and only the latter grow with the sequence. A step sees one store, whose layers are
// those of the model.
//
// Source      Gemma Team 2024, arXiv:2408.00118 (alternating local and global layers)
// Tested by   tests/kv/layered_test.cpp, tests/law/stores_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/detail/panel_span_range.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/store.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::kv {

// As movable as its parts. Both stores always end at the same position.
//
// Units    windows[layer] counts tokens, the row's own included; 0 is a layer without a window
// Errors   those of its parts; nothing changed then
// Cost     the sum of its parts'
// Threads  as its parts
template <Store Local, Store Global>
requires std::same_as<typename Local::Keys, typename Global::Keys> &&
         std::same_as<typename Local::Values, typename Global::Values>
class Layered {
 public:
  using Keys = typename Local::Keys;
  using Values = typename Local::Values;

  // Layers with a window are `local`'s, the others `global`'s, each in ascending order.
  //
  // Errors   std::invalid_argument if the parts have another number of layers, or their shapes or
  //          ends differ
  Layered(std::span<const Position> windows, Local local, Global global)
      : local_(std::move(local)), global_(std::move(global)), geometry_(global_.geometry()) {
    places_.reserve(windows.size());
    Index locals = 0;
    for (Position window : windows) {
      const Index globals = std::ssize(places_) - locals;
      places_.push_back({.local = window > 0, .layer = window > 0 ? locals : globals});
      locals += window > 0 ? 1 : 0;
    }
    geometry_.layers = local_.geometry().layers;
    expects(geometry_ == local_.geometry(), "kv::Layered: parts of different shapes");
    geometry_.layers = std::ssize(windows);
    expects(local_.geometry().layers == locals &&
                global_.geometry().layers == geometry_.layers - locals,
            "kv::Layered: stores of ", local_.geometry().layers, " and ", global_.geometry().layers,
            " layers, for ", locals, " with a window of ", geometry_.layers);
    expects(global_.window(0) == 0, "kv::Layered: the store of layers without a window holds ",
            global_.window(0), " tokens only");
    expects(local_.end() == global_.end(), "kv::Layered: stores of ", local_.end(), " and ",
            global_.end(), " tokens");
  }

  const Local& local() const noexcept { return local_; }
  const Global& global() const noexcept { return global_; }

  const Geometry& geometry() const noexcept { return geometry_; }
  Position begin(Index layer) const noexcept {
    return visit(*this, layer, [](const auto& part, Index at) { return part.begin(at); });
  }
  Position end() const noexcept { return global_.end(); }
  Index sink_tokens() const noexcept { return local_.sink_tokens(); }
  Index capacity() const noexcept { return std::min(local_.capacity(), global_.capacity()); }
  Index bytes() const noexcept { return local_.bytes() + global_.bytes(); }
  Position earliest_rewind() const noexcept {
    return std::max(local_.earliest_rewind(), global_.earliest_rewind());
  }
  Index window(Index layer) const noexcept {
    return visit(*this, layer, [](const auto& part, Index at) { return part.window(at); });
  }
  Index chunk() const noexcept { return std::min(local_.chunk(), global_.chunk()); }

  void reserve(Index tokens) {
    global_.reserve(tokens);
    try {
      local_.reserve(tokens);
    } catch (...) {
      global_.rewind(global_.end());
      throw;
    }
  }
  std::byte* panel(Index layer, Index head, Position at) noexcept {
    return visit(*this, layer, [&](auto& part, Index its) { return part.panel(its, head, at); });
  }
  void put(Index layer, Index head, Position at, std::span<const float> key,
           std::span<const float> value) noexcept {
    visit(*this, layer, [&](auto& part, Index its) { part.put(its, head, at, key, value); });
  }
  void get(Index layer, Index head, Position at, std::span<float> key,
           std::span<float> value) const {
    check_place(geometry_, layer, head, key.size(), value.size(), "kv::Layered::get");
    visit(*this, layer, [&](const auto& part, Index its) { part.get(its, head, at, key, value); });
  }
  void publish(Index tokens) noexcept {
    local_.publish(tokens);
    global_.publish(tokens);
  }
  // Errors   std::invalid_argument when `new_end` is not in [0, end()], CannotRewind when a part
  //          no longer holds what a row there would see
  void rewind(Position new_end) {
    expects(new_end >= 0 && new_end <= end(), "kv::Layered::rewind: ", new_end, " is not in [0, ",
            end(), "]");
    expects<CannotRewind>(new_end == 0 || new_end == end() || new_end >= earliest_rewind(),
                          "kv::Layered::rewind: to ", new_end, ", which is possible from ",
                          earliest_rewind(), " on");
    local_.rewind(new_end);
    global_.rewind(new_end);
  }

  // If the layers with a window are in a ring: positions before `first` count as overwritten.
  void drop_before(Position first)
  requires requires(Local& local) { local.drop_before(first); }
  {
    local_.drop_before(first);
  }

  auto panel_spans(Index layer, Index head) const noexcept {
    const auto of = [head](const auto& part, Index its) { return part.panel_spans(its, head); };
    const auto count = visit(*this, layer, [&](const auto& part, Index its) {
      return static_cast<Index>(std::ranges::size(of(part, its)));
    });
    return detail::PanelSpanRange(count, [this, layer, of](Index n) {
      return visit(*this, layer,
                   [&](const auto& part, Index its) { return PanelSpan(of(part, its)[n]); });
    });
  }

 private:
  struct Place {
    bool local;
    Index layer;  // of that store
  };

  // Calls f(store, layer in that store) with the store that has the layer.
  template <class Self, class F>
  static auto visit(Self& self, Index layer, F&& f) {
    const Place place = self.places_[static_cast<std::size_t>(layer)];
    return place.local ? f(self.local_, place.layer) : f(self.global_, place.layer);
  }

  Local local_;
  Global global_;
  Geometry geometry_;
  std::vector<Place> places_;
};

}  // namespace decant::inline DECANT_ABI::kv
