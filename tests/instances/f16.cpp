// The instances of f16.
#include "instances.hpp"

DECANT_INSTANCES(template, codec::F16)
