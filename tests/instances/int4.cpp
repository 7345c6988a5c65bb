// The instances of caches in int4.
#include "instances.hpp"

DECANT_CACHE_INSTANCES(template, codec::Int4)
