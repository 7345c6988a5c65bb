// Stores of keys and values in f32.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_FORMAT(template, codec::F32)
