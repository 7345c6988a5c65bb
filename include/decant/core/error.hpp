// decant/core/error.hpp - the exceptions of the library, and one check.
//
// An exception has one sentence that names the offending value, and is thrown before anything was
// changed: std::invalid_argument for a caller's mistake, CacheFull for a store without room,
// CannotRewind for a store that has overwritten what is needed, FormatError for an invalid file.
//
// Tested by   tests/core/error_test.cpp
#pragma once

#include <decant/core/config.hpp>

#include <array>
#include <charconv>
#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace decant::inline DECANT_ABI {

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

// One part of a sentence, of any type: type erasure spares each call of expects() code of its own.
// Text is borrowed.
class Part {
 public:
  template <class T>
  Part(const T& part) noexcept {  // NOLINT: a conversion
    if constexpr (std::same_as<T, float>) {
      kind_ = Kind::f32;
      number_.f32 = part;
    } else if constexpr (std::floating_point<T>) {
      kind_ = Kind::f64;
      number_.f64 = part;
    } else if constexpr (std::unsigned_integral<T>) {
      kind_ = Kind::natural;
      number_.natural = part;
    } else if constexpr (std::integral<T>) {
      kind_ = Kind::integer;
      number_.integer = part;
    } else {
      text_ = part;
    }
  }

  void append_to(std::string& sentence) const {
    std::array<char, 64> text{};
    const auto write = [&](auto number) {  // the shortest spelling that reads back the same
      const std::to_chars_result result =
          std::to_chars(text.data(), text.data() + text.size(), number);
      sentence.append(text.data(), result.ptr);
    };
    switch (kind_) {
      case Kind::text:
        sentence.append(text_);
        break;
      case Kind::integer:
        write(number_.integer);
        break;
      case Kind::natural:
        write(number_.natural);
        break;
      case Kind::f32:
        write(number_.f32);
        break;
      case Kind::f64:
        write(number_.f64);
        break;
    }
  }

 private:
  enum class Kind { text, integer, natural, f32, f64 };

  Kind kind_ = Kind::text;
  std::string_view text_;
  union {
    long long integer;
    unsigned long long natural;
    float f32;
    double f64;
  } number_ = {};
};

inline std::string sentence(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

template <class Error>
[[noreturn]] DECANT_NEVER_INLINE void fail(std::initializer_list<Part> parts) {
  throw Error(sentence(parts));
}

}  // namespace detail

// The parts (text or numeric values) written one after another.
template <class... Parts>
std::string sentence(const Parts&... parts) {
  return detail::sentence({parts...});
}

// Throws `Error` with the sentence made of `parts` unless `held`. The sentence is only built
// when it is needed.
//
// Errors   Error (std::invalid_argument unless named)
template <class Error = std::invalid_argument, class... Parts>
constexpr void expects(bool held, const Parts&... parts) {
  if (!held) [[unlikely]] {
    detail::fail<Error>({parts...});
  }
}

}  // namespace decant::inline DECANT_ABI
