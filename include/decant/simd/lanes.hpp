// decant/simd/lanes.hpp - sixteen floats as one value, on every machine.
//
// Lanes is one AVX-512 register, two of AVX, four of SSE or NEON, or sixteen plain floats. Kernels
// are written once against it, and because every lane is independent, one order of operations
// gives one result whatever the register width. This is the only header that names Eigen's packet
// layer. A product that is added is always spelled madd, never left to the compiler to fuse.
//
// Source      exp: range reduction and coefficients of Cephes' expf (S. Moshier)
// Tested by   tests/simd/lanes_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace decant::inline DECANT_ABI::simd {

namespace detail {

using Packet = Eigen::internal::packet_traits<float>::type;
inline constexpr int kPacketFloats = Eigen::internal::packet_traits<float>::size;
inline constexpr int kPackets = 16 / kPacketFloats;
static_assert(kPackets * kPacketFloats == 16, "a register wider than 16 floats");

// A register seen as 32-bit integers, and back; without vector registers both are scalars.
DECANT_ALWAYS_INLINE std::int32_t bits_of(const float& number) {
  return std::bit_cast<std::int32_t>(number);
}
DECANT_ALWAYS_INLINE float from_bits(const std::int32_t& bits) {
  return std::bit_cast<float>(bits);
}
template <class P>
DECANT_ALWAYS_INLINE auto bits_of(const P& packet) {
  return Eigen::internal::preinterpret<
      typename Eigen::internal::unpacket_traits<P>::integer_packet>(packet);
}
template <class I>
DECANT_ALWAYS_INLINE Packet from_bits(const I& bits) {
  return Eigen::internal::preinterpret<Packet>(bits);
}
using IntPacket = decltype(bits_of(std::declval<const Packet&>()));

}  // namespace detail

// f(0), f(1), ... f(N - 1) with constant arguments: a loop that is certainly unrolled.
template <int N, class F>
DECANT_ALWAYS_INLINE void unroll(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (f(std::integral_constant<int, I>{}), ...);
  }(std::make_integer_sequence<int, N>{});
}

// How many vector registers one Lanes takes.
inline constexpr int kRegisters = detail::kPackets;

// Lane n is element n in memory order.
//
// Threads  a value, as a float is
struct Lanes {
  detail::Packet part[detail::kPackets];
};

namespace detail {

template <class F>
DECANT_ALWAYS_INLINE Lanes each_packet(F&& f) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return Lanes{{f(I)...}};
  }(std::make_integer_sequence<int, kPackets>{});
}

}  // namespace detail

DECANT_ALWAYS_INLINE Lanes broadcast(float value) {
  return detail::each_packet([&](int) { return Eigen::internal::pset1<detail::Packet>(value); });
}

// Sixteen floats at `from`, of any alignment.
DECANT_ALWAYS_INLINE Lanes load(const float* from) {
  return detail::each_packet([&](int i) {
    return Eigen::internal::ploadu<detail::Packet>(from + i * detail::kPacketFloats);
  });
}

// The same place, in a way that the compiler does not see through: what is read there again is read
// from the cache, and does not occupy a register that sums need more.
template <class T>
DECANT_ALWAYS_INLINE T* opaque(T* at) {
#if defined(__GNUC__) || defined(__clang__)
  asm("" : "+r"(at));
#endif
  return at;
}

// Asks for the cache line `distance` bytes from `at` ahead of its use. Nothing is read there, and
// it may lie beyond what was allocated: addresses are added as integers.
DECANT_ALWAYS_INLINE void prefetch(const void* at, Index distance = 0) {
#if defined(__GNUC__) || defined(__clang__)
  const auto address = reinterpret_cast<std::uintptr_t>(at) + static_cast<std::uintptr_t>(distance);
  __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
#endif
}

DECANT_ALWAYS_INLINE void store(float* to, const Lanes& lanes) {
  unroll<detail::kPackets>(
      [&](auto i) { Eigen::internal::pstoreu(to + i * detail::kPacketFloats, lanes.part[i]); });
}

// The first `count` <= 16 of the floats at `from`; the lanes beyond are zero, and not read.
DECANT_ALWAYS_INLINE Lanes load_first(const float* from, Index count) {
  if (count >= kLanes) return load(from);
  alignas(64) float lanes[kLanes] = {};
  for (Index n = 0; n < count; ++n) lanes[n] = from[n];
  return load(lanes);
}

// Stores the first `count` <= 16 lanes.
DECANT_ALWAYS_INLINE void store_first(float* to, const Lanes& value, Index count) {
  if (count >= kLanes) return store(to, value);
  alignas(64) float lanes[kLanes];
  store(lanes, value);
  for (Index n = 0; n < count; ++n) to[n] = lanes[n];
}

// f(first, count) for every run of 16 of `size` elements; the last may be shorter.
template <class F>
DECANT_ALWAYS_INLINE void for_lanes(Index size, F&& f) {
  for (Index at = 0; at < size; at += kLanes) f(at, size - at < kLanes ? size - at : kLanes);
}

// Sixteen 32-bit words as bits of floats, and floats made of the halves of words: what bf16 is.
DECANT_ALWAYS_INLINE Lanes load_words(const void* from) {
  return detail::each_packet([&](int i) {
    detail::Packet part;
    std::memcpy(&part, static_cast<const char*>(from) + static_cast<std::size_t>(i) * sizeof part,
                sizeof part);
    return part;
  });
}
DECANT_ALWAYS_INLINE Lanes low_halves(const Lanes& words) {
  return detail::each_packet([&](int i) {
    return detail::from_bits(
        Eigen::internal::plogical_shift_left<16>(detail::bits_of(words.part[i])));
  });
}
DECANT_ALWAYS_INLINE Lanes high_halves(const Lanes& words) {
  const auto high =
      Eigen::internal::pset1<detail::IntPacket>(static_cast<std::int32_t>(0xFFFF0000));
  return detail::each_packet([&](int i) {
    return detail::from_bits(Eigen::internal::pand(detail::bits_of(words.part[i]), high));
  });
}

DECANT_ALWAYS_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
  return detail::each_packet([&](int i) { return Eigen::internal::padd(a.part[i], b.part[i]); });
}
DECANT_ALWAYS_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
  return detail::each_packet([&](int i) { return Eigen::internal::psub(a.part[i], b.part[i]); });
}
DECANT_ALWAYS_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
  return detail::each_packet([&](int i) { return Eigen::internal::pmul(a.part[i], b.part[i]); });
}
DECANT_ALWAYS_INLINE Lanes operator/(const Lanes& a, const Lanes& b) {
  return detail::each_packet([&](int i) { return Eigen::internal::pdiv(a.part[i], b.part[i]); });
}

// a * b + c, rounded once where the machine can.
DECANT_ALWAYS_INLINE Lanes madd(const Lanes& a, const Lanes& b, const Lanes& c) {
  return detail::each_packet(
      [&](int i) { return Eigen::internal::pmadd(a.part[i], b.part[i], c.part[i]); });
}
DECANT_ALWAYS_INLINE float madd(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// The larger of a and b, lane by lane. If either is NaN, the machine decides.
DECANT_ALWAYS_INLINE Lanes max(const Lanes& a, const Lanes& b) {
  return detail::each_packet([&](int i) { return Eigen::internal::pmax(a.part[i], b.part[i]); });
}

DECANT_ALWAYS_INLINE Lanes abs(const Lanes& a) {
  return detail::each_packet([&](int i) { return Eigen::internal::pabs(a.part[i]); });
}

// `a` where `condition` compares below zero, else `b`.
DECANT_ALWAYS_INLINE Lanes where_negative(const Lanes& condition, const Lanes& a, const Lanes& b) {
  const auto zero = Eigen::internal::pset1<detail::Packet>(0.0f);
  return detail::each_packet([&](int i) {
    return Eigen::internal::pselect(Eigen::internal::pcmp_lt(condition.part[i], zero), a.part[i],
                                    b.part[i]);
  });
}

// Lane n for n in [begin, end), `other` elsewhere. What the replaced lanes held does not matter.
DECANT_ALWAYS_INLINE Lanes select_range(const Lanes& lanes, Index begin, Index end, float other) {
  using Eigen::internal::pcmp_lt;
  using Eigen::internal::pset1;
  const auto first = pset1<detail::Packet>(static_cast<float>(begin) - 0.5f);
  const auto last = pset1<detail::Packet>(static_cast<float>(end) - 0.5f);
  const auto outside = pset1<detail::Packet>(other);
  return detail::each_packet([&](int i) {
    const auto lane =
        Eigen::internal::plset<detail::Packet>(static_cast<float>(i * detail::kPacketFloats));
    const auto inside = Eigen::internal::pand(pcmp_lt(first, lane), pcmp_lt(lane, last));
    return Eigen::internal::pselect(inside, lanes.part[i], outside);
  });
}

// The sum in one fixed tree: lanes n and n + 8, then n and n + 4, then n and n + 2, then the last
// two.
inline float reduce_add(const Lanes& lanes) {
  alignas(64) float at[kLanes];
  store(at, lanes);
  for (int half = 8; half > 0; half /= 2) {
    for (int n = 0; n < half; ++n) at[n] += at[n + half];
  }
  return at[0];
}

// The largest lane; its order does not matter.
DECANT_ALWAYS_INLINE float reduce_max(const Lanes& lanes) {
  detail::Packet top = lanes.part[0];
  unroll<detail::kPackets>([&](auto i) {
    if constexpr (i > 0) top = Eigen::internal::pmax(top, lanes.part[i]);
  });
  return Eigen::internal::predux_max(top);
}

// e^x for x <= 88; exactly 0 from -87.7 down (so for -inf); NaN stays NaN. Error below 2 units in
// the last place elsewhere.
DECANT_ALWAYS_INLINE Lanes exp(const Lanes& x) {
  constexpr float kShift = 12582912.0f;     // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLowest = -88.02969193f;  // -127 ln 2, whose power of two is flushed to 0
  const Lanes y = max(x, broadcast(kLowest));
  const Lanes shifted = madd(y, broadcast(1.44269504088896341f), broadcast(kShift));
  const Lanes n = shifted - broadcast(kShift);
  Lanes r = madd(n, broadcast(-0.693359375f), y);
  r = madd(n, broadcast(2.12194440e-4f), r);
  Lanes p = broadcast(1.9875691500e-4f);
  p = madd(p, r, broadcast(1.3981999507e-3f));
  p = madd(p, r, broadcast(8.3334519073e-3f));
  p = madd(p, r, broadcast(4.1665795894e-2f));
  p = madd(p, r, broadcast(1.6666665459e-1f));
  p = madd(p, r, broadcast(5.0000001201e-1f));
  p = madd(p, r * r, r) + broadcast(1.0f);
  const auto bias = Eigen::internal::pset1<detail::IntPacket>(127);
  return detail::each_packet([&](int i) {  // p * 2^n
    const auto exponent = Eigen::internal::padd(detail::bits_of(shifted.part[i]), bias);
    const auto power = Eigen::internal::plogical_shift_left<23>(exponent);
    return Eigen::internal::pmul(p.part[i], detail::from_bits(power));
  });
}

DECANT_ALWAYS_INLINE float exp(float x) {
  alignas(64) float lanes[kLanes];
  store(lanes, exp(broadcast(x)));
  return lanes[0];
}

// 1 / (1 + e^-x)
DECANT_ALWAYS_INLINE Lanes sigmoid(const Lanes& x) {
  const Lanes one = broadcast(1.0f);
  const Lanes e = exp(broadcast(0.0f) - abs(x));
  return where_negative(x, e, one) / (one + e);
}

// Within 1e-7 of the hyperbolic tangent.
DECANT_ALWAYS_INLINE Lanes tanh(const Lanes& x) {
  const Lanes one = broadcast(1.0f);
  const Lanes e = exp(broadcast(-2.0f) * abs(x));
  const Lanes size = (one - e) / (one + e);
  return where_negative(x, broadcast(0.0f) - size, size);
}

}  // namespace decant::inline DECANT_ABI::simd
