// decant/io.hpp - checkpoints, tokenizers and saved caches in one include; the target decant::io.
//
// For users of the library: nothing inside includes it.
//
// Depends on  io/
// Tested by   tests/package/two_units_a.cpp
#pragma once

#include <decant/io/added_tokens.hpp>
#include <decant/io/bpe.hpp>
#include <decant/io/bpe_merge.hpp>
#include <decant/io/byte_letters.hpp>
#include <decant/io/checkpoint.hpp>
#include <decant/io/checkpoint_config.hpp>
#include <decant/io/fingerprint.hpp>
#include <decant/io/gguf.hpp>
#include <decant/io/gguf_config.hpp>
#include <decant/io/gguf_keys.hpp>
#include <decant/io/gguf_metadata.hpp>
#include <decant/io/gguf_rope.hpp>
#include <decant/io/gguf_tokenizer.hpp>
#include <decant/io/gguf_value.hpp>
#include <decant/io/gguf_vocabulary.hpp>
#include <decant/io/gpt2_weights.hpp>
#include <decant/io/hash.hpp>
#include <decant/io/hf_config.hpp>
#include <decant/io/hf_fields.hpp>
#include <decant/io/hf_rope.hpp>
#include <decant/io/json.hpp>
#include <decant/io/little_endian.hpp>
#include <decant/io/llama_weights.hpp>
#include <decant/io/load_checkpoint.hpp>
#include <decant/io/load_options.hpp>
#include <decant/io/load_tokenizer.hpp>
#include <decant/io/mapped_file.hpp>
#include <decant/io/metaspace.hpp>
#include <decant/io/new_file.hpp>
#include <decant/io/normalizer.hpp>
#include <decant/io/pattern.hpp>
#include <decant/io/pre_tokenizer.hpp>
#include <decant/io/prefix_snapshot.hpp>
#include <decant/io/safetensors.hpp>
#include <decant/io/score_merges.hpp>
#include <decant/io/sealed_tensors.hpp>
#include <decant/io/snapshot.hpp>
#include <decant/io/snapshot_format.hpp>
#include <decant/io/tensor.hpp>
#include <decant/io/tensor_files.hpp>
#include <decant/io/text_stream.hpp>
#include <decant/io/token_decoder.hpp>
#include <decant/io/tokenizer.hpp>
#include <decant/io/utf8.hpp>
#include <decant/io/vocabulary.hpp>
#include <decant/io/weight_reader.hpp>
