// The instances of caches whose keys and values differ in format.
#include "instances.hpp"

DECANT_PAIR_INSTANCES(template, F16, Int8)
DECANT_PAIR_INSTANCES(template, F16, Int4)
DECANT_PAIR_INSTANCES(template, Int8, F16)
DECANT_PAIR_INSTANCES(template, Int8, Int4)
