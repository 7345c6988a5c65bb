// Compiles attention and steps for a store that decant::compiled does not have.
#include <decant/instantiate.hpp>

DECANT_INSTANTIATE(kv::Contiguous<codec::F16, codec::FP8E4M3>)
