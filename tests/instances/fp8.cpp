// The instances of caches in fp8.
#include "instances.hpp"

DECANT_CACHE_INSTANCES(template, codec::FP8E4M3)
DECANT_CACHE_INSTANCES(template, codec::FP8E5M2)
