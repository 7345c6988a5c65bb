// Every header in two translation units of one program: what is not inline is defined twice.
#include <decant/decant.hpp>
#include <decant/io.hpp>

std::size_t version_seen_by_b();

int main() { return decant::kVersion.size() == version_seen_by_b() ? 0 : 1; }
