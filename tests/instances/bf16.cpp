// The instances of bf16.
#include "instances.hpp"

DECANT_INSTANCES(template, codec::BF16)
