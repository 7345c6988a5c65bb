// The instances of weights in blocks.
#include "instances.hpp"

DECANT_BLOCK_INSTANCES(template, codec::Q8_0)
DECANT_BLOCK_INSTANCES(template, codec::Q4_0)
