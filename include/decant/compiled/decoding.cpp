// What decoding and the prefix cache need that is no template.
#include <decant/decoding/detail/log_probabilities.hpp>
#include <decant/decoding/detail/penalties.hpp>
#include <decant/decoding/detail/rejection.hpp>
#include <decant/decoding/detail/router.hpp>
#include <decant/decoding/detail/service.hpp>
#include <decant/decoding/detail/stream.hpp>
#include <decant/kv/detail/prefix_summary.hpp>
