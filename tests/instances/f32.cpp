// The instances of f32.
#include "instances.hpp"

DECANT_INSTANCES(template, codec::F32)
