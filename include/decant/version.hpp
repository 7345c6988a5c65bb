// decant/version.hpp - the version of the library, stated here alone: CMake reads it from here.
//
// Tested by   tests/consumer, where find_package asks for it
#pragma once

#include <decant/core/abi.hpp>

#include <string_view>

namespace decant::inline DECANT_ABI {

// major.minor.patch. Before 1.0 a new minor version may change the interface.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace decant::inline DECANT_ABI
