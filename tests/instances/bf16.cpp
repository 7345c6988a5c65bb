// The instances of bf16; those of the other types stand elsewhere.
#define DECANT_INSTANCE_OF
#include "instances.hpp"

DECANT_INSTANCES(extern template, codec::F32)
DECANT_INSTANCES(extern template, codec::F16)
DECANT_INSTANCES(template, codec::BF16)
