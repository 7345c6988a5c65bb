// A store refuses a type that is not a complete codec.
#include <decant/codec/plain.hpp>
#include <decant/kv/contiguous.hpp>

struct Mute : decant::codec::F32 {
#ifdef DECANT_REFUSED
  static float load(Cell) = delete;
#endif
};

int main() {
  const decant::kv::Contiguous<Mute> store({1, 1, 16, 16}, 16);
  return static_cast<int>(store.end());
}
