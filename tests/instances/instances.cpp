#define DECANT_INSTANCE template
#include "instances.hpp"
