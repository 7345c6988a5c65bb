// What a user's program sees of an installed, added or fetched decant.
#include <decant/decant.hpp>

#include <cstdio>

int main() {
  using decant::kv::Contiguous;
  constexpr decant::kv::Geometry geometry{.layers = 2, .heads = 1, .key_dim = 16, .value_dim = 16};
  const Contiguous<decant::codec::BF16> store(geometry, 32);
  std::printf("decant %.*s: %lld bytes\n", static_cast<int>(decant::kVersion.size()),
              decant::kVersion.data(), static_cast<long long>(store.bytes()));
  return store.bytes() == geometry.bytes<decant::codec::BF16>(32) ? 0 : 1;
}
