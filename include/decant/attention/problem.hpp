// decant/attention/problem.hpp - the arguments of attention: rows of queries, and the stores that
// they look into.
//
// Rows of a sequence share a store and a mask; sequences of one call share a layer and its shape.
// Intermediate sums are in a scratch that is made once.
//
// Tested by   tests/attention/attend_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/error.hpp>
#include <decant/core/memory.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/store.hpp>

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace decant::inline DECANT_ABI::attention {

inline constexpr Index kTileKeys = 64;       // scores of one running-softmax update
inline constexpr Index kSegmentKeys = 1024;  // keys whose sums stand alone before they merge
inline constexpr Index kTileQueries = 96;    // read keys together: 16 tiles of 6 rows

// Consecutive rows of one sequence and the store they look into.
//
// Shape    queries [rows][heads][key_dim], out [rows][heads][value_dim], log_sum_exp [rows][heads]
//          or null; rows of queries and out are strides apart (Problem)
// Units    `first` is the position of row 0, which need not be published yet
template <kv::Store S>
struct Sequence {
  const S* store = nullptr;
  Position first = 0;
  Index rows = 0;
  const float* queries = nullptr;
  float* out = nullptr;
  float* log_sum_exp = nullptr;  // natural logarithm, a sink included
};

// What all sequences of one call have in common.
//
// Shape    sinks [heads] or null: a score of each head, neither scaled nor transformed, that takes
//          weight from every row once and has no value; if results are to be merged, only one of
//          them may have sinks
struct Problem {
  Index layer = 0;
  Index heads = 0;         // query heads, a multiple of the store's heads
  float scale = 1.0f;      // multiplies q·k
  Index query_stride = 0;  // elements from one row of queries to the next
  Index out_stride = 0;
  const float* sinks = nullptr;
};

// Query head h looks at key head h / group.
constexpr Index group_size(Index heads, const kv::Geometry& geometry) noexcept {
  return heads / geometry.heads;
}

// Rows that are worked on together, so that keys are read once for kTileQueries queries.
constexpr Index tile_rows(Index group) noexcept { return std::max<Index>(1, kTileQueries / group); }

// Memory for the sums of every worker, and for segments that different workers take.
//
// Units    sequences: of one call; split_positions: up to which context one row's segments may be
//          spread over workers
// Errors   std::invalid_argument, std::bad_alloc from the constructor
// Threads  one call of attend() at a time
class Scratch {
 public:
  struct Worker {
    float* queries;                // [tile queries][key_dim], unless keys are integers; then
    std::int32_t* int_queries;     // [tile queries][ceil(key_dim / 2)] words of two int16
    float* query_scales;           // [tile queries], of int_queries
    float* sums;                   // [tile queries][16]
    float* values;                 // [tile queries][value lanes]
    float* scores;                 // [tile queries][64], then weights
    Range* keys;                   // [tile queries], what each sees of the tile at work
    kernels::SoftmaxPart* parts;   // [tile queries], of the segment at work
    kernels::SoftmaxPart* totals;  // [tile queries], of all segments so far
  };

  Scratch(const kv::Geometry& geometry, Index heads, Index threads, Index sequences,
          Index split_positions, std::pmr::memory_resource& memory = default_memory())
      : geometry_(geometry),
        heads_(heads),
        threads_(threads),
        value_lanes_(round_up(geometry.value_dim, kLanes * codec::kLargestPack)),
        group_(checked_group(geometry, heads, threads)),
        queries_(checked_product(tile_rows(group_), group_)),
        worker_floats_(checked_product(queries_, checked_sum(round_up(geometry.key_dim, kLanes),
                                                             value_lanes_ + kLanes + kTileKeys))),
        worker_words_(checked_product(queries_, ceil_div(geometry.key_dim, 2))),
        slots_(threads > 1
                   ? checked_product(geometry.heads, ceil_div(split_positions, kSegmentKeys))
                   : 0),
        key_dim_(geometry.key_dim),
        floats_(checked_product(threads, worker_floats_), memory),
        int_queries_(checked_product(threads, worker_words_), memory),
        query_scales_(checked_product(threads, queries_), memory),
        parts_(checked_product({threads, queries_, 2}), memory),
        keys_(checked_product(threads, queries_), memory),
        slot_values_(checked_product({slots_, group_, value_lanes_}), memory),
        slot_parts_(checked_product(slots_, group_), memory) {
    first_items_.reserve(static_cast<std::size_t>(sequences) + 1);
  }

  // Whether it was made for such a problem, so that nothing is written out of bounds.
  bool fits(const kv::Geometry& geometry, Index heads, Index threads) const noexcept {
    return geometry.heads == geometry_.heads && geometry.key_dim == geometry_.key_dim &&
           geometry.value_dim == geometry_.value_dim && heads == heads_ && threads <= threads_;
  }

  Worker worker(Index at) noexcept {
    float* base = floats_.data() + at * worker_floats_;
    kernels::SoftmaxPart* parts = parts_.data() + at * queries_ * 2;
    float* sums = base + queries_ * round_up(key_dim_, kLanes);
    float* scores = sums + queries_ * kLanes;
    return {.queries = base,
            .int_queries = int_queries_.data() + at * worker_words_,
            .query_scales = query_scales_.data() + at * queries_,
            .sums = sums,
            .values = scores + queries_ * kTileKeys,
            .scores = scores,
            .keys = keys_.data() + at * queries_,
            .parts = parts,
            .totals = parts + queries_};
  }

  // Results of one segment for the queries of one row and key head.
  Index slots() const noexcept { return slots_; }
  float* slot_values(Index at) noexcept { return slot_values_.data() + at * group_ * value_lanes_; }
  kernels::SoftmaxPart* slot_parts(Index at) noexcept { return slot_parts_.data() + at * group_; }

  std::vector<Index>& first_items() noexcept { return first_items_; }

 private:
  static Index checked_group(const kv::Geometry& geometry, Index heads, Index threads) {
    expects(geometry.heads > 0 && heads > 0 && heads % geometry.heads == 0,
            "attention::Scratch: ", heads, " query heads over ", geometry.heads, " key heads");
    expects(threads >= 1, "attention::Scratch: ", threads, " threads");
    return group_size(heads, geometry);
  }

  kv::Geometry geometry_;
  Index heads_, threads_;
  Index value_lanes_, group_, queries_, worker_floats_, worker_words_, slots_, key_dim_;
  Buffer<float> floats_;
  Buffer<std::int32_t> int_queries_;
  Buffer<float> query_scales_;
  Buffer<kernels::SoftmaxPart> parts_;
  Buffer<Range> keys_;
  Buffer<float> slot_values_;
  Buffer<kernels::SoftmaxPart> slot_parts_;
  std::vector<Index> first_items_;  // of each sequence, in the list of all pieces of work
};

}  // namespace decant::inline DECANT_ABI::attention
