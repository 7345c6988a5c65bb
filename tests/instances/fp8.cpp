// The instances of caches in fp8; those of the other types stand elsewhere.
#define DECANT_INSTANCE_OF
#include "instances.hpp"

DECANT_BLOCK_INSTANCES(extern template, codec::Q8_0)
DECANT_BLOCK_INSTANCES(extern template, codec::Q4_0)
DECANT_INSTANCES(extern template, codec::F32)
DECANT_INSTANCES(extern template, codec::BF16)
DECANT_INSTANCES(extern template, codec::F16)
DECANT_CACHE_INSTANCES(template, codec::FP8E4M3)
DECANT_CACHE_INSTANCES(template, codec::FP8E5M2)
