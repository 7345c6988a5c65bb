// Stores of keys and values in fp8.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_FORMAT(template, codec::FP8E4M3)
DECANT_INSTANCES_OF_FORMAT(template, codec::FP8E5M2)
