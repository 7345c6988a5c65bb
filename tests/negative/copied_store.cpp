// Stores are move-only: the copy of a large one would be a hidden cost.
#include <decant/codec/plain.hpp>
#include <decant/kv/contiguous.hpp>

#include <utility>

int main() {
  decant::kv::Contiguous<decant::codec::F32> store({1, 1, 16, 16}, 16);
#ifdef DECANT_REFUSED
  auto other = store;
#else
  auto other = std::move(store);
#endif
  return static_cast<int>(other.end());
}
