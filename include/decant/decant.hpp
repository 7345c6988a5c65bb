// decant/decant.hpp - the whole library but io, in one include; the target decant::decant.
//
// For users of the library: nothing inside includes it.
//
// Depends on  every folder but io
// Tested by   tests/package/two_units_a.cpp
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/attention/key_tile.hpp>
#include <decant/attention/mask.hpp>
#include <decant/attention/problem.hpp>
#include <decant/attention/rope.hpp>
#include <decant/attention/score.hpp>
#include <decant/attention/segment.hpp>
#include <decant/attention/value_tile.hpp>
#include <decant/codec/block.hpp>
#include <decant/codec/concept.hpp>
#include <decant/codec/int4.hpp>
#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/codec/type.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/config.hpp>
#include <decant/core/debug.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/int_lanes.hpp>
#include <decant/core/pair_lanes.hpp>
#include <decant/core/random.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/simd.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/sampler.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/decoding/stop.hpp>
#include <decant/kernels/activation.hpp>
#include <decant/kernels/block_tile.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/kernels/norm.hpp>
#include <decant/kernels/packed.hpp>
#include <decant/kernels/packed_blocks.hpp>
#include <decant/kernels/product.hpp>
#include <decant/kernels/row_tiles.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kernels/tile.hpp>
#include <decant/kv/block.hpp>
#include <decant/kv/block_range.hpp>
#include <decant/kv/cells.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/interchange.hpp>
#include <decant/kv/layered.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/panel.hpp>
#include <decant/kv/prefix.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/kv/ring.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/close_gap.hpp>
#include <decant/model/config.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/kept_tokens.hpp>
#include <decant/model/layer.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/rows.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/weights.hpp>
#include <decant/model/weights_check.hpp>
#include <decant/model/workspace.hpp>
#include <decant/version.hpp>
