// decant/model/detail/decoder.hpp - defines the members of model::Decoder that depend on no store.
#pragma once

#include <decant/core/config.hpp>
#include <decant/model/config.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/weights.hpp>

#include <utility>

namespace decant::inline DECANT_ABI::model {

DECANT_INLINE Decoder::Decoder(Config config, Weights weights)
    : config_(std::move(config)), weights_(std::move(weights)) {
  check(config_);
  check(config_, weights_);
}

}  // namespace decant::inline DECANT_ABI::model
