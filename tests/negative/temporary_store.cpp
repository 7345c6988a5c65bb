// A batch borrows its stores, so a temporary one is refused.
#include <decant/codec/plain.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/batch.hpp>

#include <array>

int main() {
  using Store = decant::kv::Contiguous<decant::codec::F32>;
  const std::array<decant::Token, 1> tokens = {0};
  decant::model::Batch<Store> batch;
#ifdef DECANT_REFUSED
  batch.add(Store({1, 1, 16, 16}, 16), tokens);
#else
  Store store({1, 1, 16, 16}, 16);
  batch.add(store, tokens);
#endif
  return static_cast<int>(batch.rows());
}
