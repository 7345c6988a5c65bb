// The decode loop of generate(). It stands apart from the kernels: in one source with it, GCC 12
// compiled attention over bf16 to code that was 10 to 20 % slower.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_RUNS(DECANT_GENERATE_OF, template)
