// Stores of keys and values in int8.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_FORMAT(template, codec::Int8)
