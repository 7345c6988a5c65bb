// Stores whose keys and values differ in format.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_MIXED_FORMATS(DECANT_STEP_OF, template)
