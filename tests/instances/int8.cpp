// The instances of caches in int8.
#include "instances.hpp"

DECANT_CACHE_INSTANCES(template, codec::Int8)
