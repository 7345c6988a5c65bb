// decant/core/error.hpp - how the library refuses: four types, and one check.
//
// A refusal is an exception with one sentence that names the offending value, thrown before
// anything was changed. std::invalid_argument is the caller's mistake, CacheFull is a store
// without room, CannotRewind one that has forgotten, FormatError a file that is not what it claims.
//
// Tested by   tests/core/error_test.cpp
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>

namespace decant::inline v0 {

// A store or a pool has no room for what was asked. Nothing was changed.
class CacheFull : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A store no longer has what a rewind needs. Nothing was changed.
class CannotRewind : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file is damaged, foreign or contradicts itself; the sentence names file and place.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

inline std::string as_text(std::string_view part) { return std::string(part); }
template <std::integral I>
std::string as_text(I part) {
  return std::to_string(part);
}
template <std::floating_point F>
std::string as_text(F part) {  // the shortest spelling that reads back as the same number
  std::array<char, 64> text{};
  const std::to_chars_result result = std::to_chars(text.data(), text.data() + text.size(), part);
  return std::string(text.data(), result.ptr);
}

}  // namespace detail

// The parts (text or numbers) written one after another.
template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::string text;
  (text.append(detail::as_text(parts)), ...);
  return text;
}

// Throws `Error` with the sentence made of `parts` unless `held`. The sentence is only built
// when it is needed.
//
// Errors   Error (std::invalid_argument unless named)
template <class Error = std::invalid_argument, class... Parts>
constexpr void expects(bool held, const Parts&... parts) {
  if (!held) [[unlikely]] {
    throw Error(sentence(parts...));
  }
}

}  // namespace decant::inline v0
