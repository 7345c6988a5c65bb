// decant/io.hpp - checkpoints, tokenizers and saved caches in one include; the target decant::io.
//
// For users of the library: nothing inside includes it. decant/files/json.hpp, which programs may
// use as well, stands apart because it includes a library of templates.
//
// Tested by   tests/package/two_units_a.cpp
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/checkpoints/load_adapter.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/checkpoints/pack_checkpoint.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/gguf_value.hpp>
#include <decant/files/hash.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/new_file.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/tensor_files.hpp>
#include <decant/files/utf8.hpp>
#include <decant/snapshots/fingerprint.hpp>
#include <decant/snapshots/prefix_snapshot.hpp>
#include <decant/snapshots/snapshot.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>
