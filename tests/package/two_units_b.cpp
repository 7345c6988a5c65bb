// The second translation unit; see two_units_a.cpp.
#include <decant/decant.hpp>
#include <decant/io.hpp>

std::size_t version_seen_by_b() { return decant::kVersion.size(); }
