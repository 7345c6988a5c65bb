// Stores of keys and values in f16.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_FORMAT(template, codec::F16)
