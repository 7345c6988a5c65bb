// bench/support/cost.hpp - the cost of a decoder's steps, from its own weights and cache format.
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/model/cost.hpp>
#include <decant/model/decoder.hpp>

namespace decant::bench {

template <codec::Codec C>
model::Cost cost_of(const model::Decoder& decoder) {
  const Index token = decoder.config().geometry().template payload_bytes<C>(1);
  return {decoder.config(), static_cast<double>(model::matrix_bytes(decoder.weights())),
          static_cast<double>(token)};
}

}  // namespace decant::bench
