// Stores of keys and values in int4.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_FORMAT(template, codec::Int4)
