// Saved caches, but for what depends on the kind of a store.
#include <decant/snapshots/detail/fingerprint.hpp>
#include <decant/snapshots/detail/prefix_snapshot.hpp>
#include <decant/snapshots/detail/snapshot.hpp>
