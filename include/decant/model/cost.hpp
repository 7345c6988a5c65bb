// decant/model/cost.hpp - the cost of a step, computed before it runs.
//
// A step reads every weight once, and the keys and values that its rows see; it computes two flops
// for each weight and row, and for each element of a key and a value that a query head sees. The
// longer of the two, at a machine's bandwidth and arithmetic, is the least time of the step: few
// rows wait for memory, many for arithmetic.
//
// Source      kipply 2022, "Transformer inference arithmetic"
// Tested by   tests/model/cost_test.cpp, against what steps count
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/model/config.hpp>
#include <decant/model/profile.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace decant::inline DECANT_ABI::model {

// The bounds of a machine, as measured: a plain read, and multiply-adds in registers.
//
// Units    per second, of all threads together; a multiply-add is two flops
struct Machine {
  double bytes_per_second = 0;
  double flops_per_second = 0;
};

// The least time that work takes.
inline double least_seconds(const Work& work, const Machine& machine) noexcept {
  return std::max(work.bytes / machine.bytes_per_second, work.flops / machine.flops_per_second);
}

// Units    weight_bytes: of all matrices, as they are stored (model/weights.hpp counts those of a
//          model); token_bytes: of the keys and values of one token in all layers, as
//          kv::Geometry::payload_bytes() says
// Errors   std::invalid_argument if one of them is not positive, and as check()
class Cost {
 public:
  Cost(const Config& config, double weight_bytes, double token_bytes)
      : config_(config), weight_bytes_(weight_bytes), token_bytes_(token_bytes) {
    check(config);
    expects(std::isfinite(weight_bytes) && weight_bytes > 0, "model::Cost: weights of ",
            weight_bytes, " bytes");
    expects(std::isfinite(token_bytes) && token_bytes > 0, "model::Cost: tokens of ", token_bytes,
            " bytes");
  }

  // Weights that multiply every row, and those that multiply the rows whose logits are needed.
  double layer_weights() const noexcept {
    const double inputs = number(config_.hidden_size);
    const double attention = number(config_.qkv_size()) + number(config_.heads * config_.value_dim);
    const double inner = number(config_.up_size()) + number(config_.intermediate_size);
    return number(config_.layers) * inputs * (attention + inner);
  }
  double output_weights() const noexcept {
    return number(config_.vocabulary) * number(config_.hidden_size);
  }
  double weight_bytes() const noexcept { return weight_bytes_; }

  // `rows` tokens of a prompt behind `cached` ones, with the logits of the last.
  Work prefill(Index rows, Index cached = 0) const {
    expects(rows > 0 && cached >= 0, "model::Cost: ", rows, " rows behind ", cached);
    Work work = {weight_bytes_, 2 * (number(rows) * layer_weights() + output_weights())};
    for (Index layer = 0; layer < config_.layers; ++layer) {
      work.bytes += layer_bytes() * number(seen(layer, cached, rows));
      work.flops += look_flops() * keys_seen(layer, cached, rows);
    }
    return work;
  }

  // One token of each of `sequences`, behind `context` ones.
  Work decode(Index sequences, Index context) const {
    expects(sequences > 0 && context >= 0, "model::Cost: ", sequences, " sequences behind ",
            context);
    Work work = {weight_bytes_, 2 * number(sequences) * (layer_weights() + output_weights())};
    for (Index layer = 0; layer < config_.layers; ++layer) {
      const double keys = number(sequences) * number(seen(layer, context, 1));
      work.bytes += layer_bytes() * keys;
      work.flops += look_flops() * keys;
    }
    return work;
  }

  // From how many sequences on a decoding step waits for arithmetic and not for memory; infinity if
  // reading their keys and values alone takes longer than computing with them.
  double compute_bound_sequences(Index context, const Machine& machine) const {
    const Work one = decode(1, context);
    const double reading = (one.bytes - weight_bytes_) / machine.bytes_per_second;
    const double computing = one.flops / machine.flops_per_second;
    if (computing <= reading) return std::numeric_limits<double>::infinity();
    return weight_bytes_ / machine.bytes_per_second / (computing - reading);
  }

  // The context whose keys and values take as long to read as the weights, of one sequence without
  // windows.
  double heavy_context() const noexcept { return weight_bytes_ / token_bytes_; }

 private:
  static double number(Index count) noexcept { return static_cast<double>(count); }

  double layer_bytes() const noexcept { return token_bytes_ / number(config_.layers); }
  // Flops of all heads of a layer for one key and value.
  double look_flops() const noexcept {
    return 2 * number(config_.heads) * number(config_.key_dim + config_.value_dim);
  }

  // Keys of a layer that at least one of `rows` rows behind `cached` tokens sees.
  Index seen(Index layer, Index cached, Index rows) const noexcept {
    const Position window = config_.window(layer);
    return window == 0 ? cached + rows : std::min(cached + rows, window - 1 + rows);
  }
  // The sum of the keys that each of these rows sees.
  double keys_seen(Index layer, Index cached, Index rows) const noexcept {
    const Position window = config_.window(layer);
    const auto up_to = [](double n) { return n * (n + 1) / 2; };
    const double all = up_to(number(cached + rows)) - up_to(number(cached));
    if (window == 0) return all;
    // Row i sees i + 1 keys, and of those not the i + 1 - window before its window.
    const auto beyond = [&](Index end) { return up_to(std::max(0.0, number(end - window))); };
    return all - (beyond(cached + rows) - beyond(cached));
  }

  Config config_;
  double weight_bytes_;
  double token_bytes_;
};

}  // namespace decant::inline DECANT_ABI::model
