// Checkpoints of Hugging Face and GGUF.
#include <decant/checkpoints/detail/load_adapter.hpp>
#include <decant/checkpoints/detail/load_checkpoint.hpp>
#include <decant/checkpoints/detail/pack_checkpoint.hpp>
