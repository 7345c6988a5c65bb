// decant/attention/mask.hpp - which keys a row may see.
//
// A mask answers with one half-open range of positions per row, so a kernel knows where to start
// and where to stop and never multiplies an unseen key by zero. Masks that are no range (padding, a
// learned bias) change scores: attention/score.hpp.
//
// Source      Vaswani et al. 2017, arXiv:1706.03762; Jiang et al. 2023, arXiv:2310.06825 (window)
// Tested by   tests/attention/mask_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <algorithm>
#include <concepts>
#include <limits>

namespace decant::inline DECANT_ABI::attention {

// The keys that the row at `position` sees. Laws: it depends on `position` alone, and neither its
// begin nor its end falls as positions rise.
template <class M>
concept Mask = requires(const M& mask, Position position) {
  { mask.visible(position) } -> std::same_as<Range>;
};

// The row's own token and those before it or, with a window of W, itself and the W - 1 before it;
// in either case only those in [begin, end).
struct Causal {
  Position window = 0;  // 0 means unlimited
  Position begin = 0;
  Position end = std::numeric_limits<Position>::max();

  constexpr Range visible(Position position) const noexcept {
    const Position first = window > 0 ? std::max(begin, position - window + 1) : begin;
    const Position stop = std::min(end, position + 1);
    return {std::min(first, stop), stop};
  }
};

// Every key of [0, keys), for encoders and cross-attention.
struct Bidirectional {
  Position keys = 0;

  constexpr Range visible(Position) const noexcept { return {0, keys}; }
};

}  // namespace decant::inline DECANT_ABI::attention
