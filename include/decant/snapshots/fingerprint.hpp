// decant/snapshots/fingerprint.hpp - an identifier of a model that no other model has.
//
// Keys and values belong to the model that computed them. Two models of one shape compute different
// ones if one was trained further, quantised or given other positions.
//
// Tested by   tests/snapshots/fingerprint_test.cpp
#pragma once

#include <decant/core/config.hpp>

#include <string>

namespace decant::inline DECANT_ABI::model {
class Decoder;
}

namespace decant::inline DECANT_ABI::snapshots {

// 32 hexadecimal digits that depend on all that keys and values depend on: every weight, every
// field of the configuration but max_positions, and whether products quantise activations.
//
// Errors   std::bad_alloc
// Cost     every weight is read and widened once
std::string fingerprint(const model::Decoder& decoder);

}  // namespace decant::inline DECANT_ABI::snapshots

#ifndef DECANT_COMPILED_IO
#include <decant/snapshots/detail/fingerprint.hpp>
#endif
