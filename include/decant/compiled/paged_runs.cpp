// Samples, beam search and the scheduler, which need paged stores.
#include <decant/instantiate.hpp>

DECANT_INSTANCES_OF_RUNS(DECANT_PAGED_RUNS_OF, template)
