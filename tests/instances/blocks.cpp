// The instances of weights in blocks; those of the other types stand elsewhere.
#define DECANT_INSTANCE_OF
#include "instances.hpp"

DECANT_BLOCK_INSTANCES(template, codec::Q8_0)
DECANT_BLOCK_INSTANCES(template, codec::Q4_0)
