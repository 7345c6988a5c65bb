// Stores of keys and values in bf16.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_FORMAT(template, codec::BF16)
