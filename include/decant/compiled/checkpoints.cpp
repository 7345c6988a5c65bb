// Checkpoints of Hugging Face and GGUF.
#include <decant/checkpoints/detail/load_checkpoint.hpp>
