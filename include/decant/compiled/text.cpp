// Tokenizers.
#include <decant/text/detail/text_stream.hpp>
#include <decant/text/detail/tokenizer.hpp>
