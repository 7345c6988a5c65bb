// One clear sentence, the right type, and nothing built while all is well.
#include <decant/core/error.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace decant {
namespace {

static_assert(std::is_base_of_v<std::runtime_error, CacheFull>);
static_assert(std::is_base_of_v<std::runtime_error, FormatError>);
static_assert(!std::is_base_of_v<std::invalid_argument, CacheFull>);

template <class Error, class Call>
std::string what_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

TEST(Sentence, JoinsTextAndValuesWithoutGaps) {
  const std::string file = "a.json";
  EXPECT_EQ(sentence(file, ": layer ", 3, " of ", std::uint64_t{18446744073709551615u}),
            "a.json: layer 3 of 18446744073709551615");
  EXPECT_EQ(sentence("from ", std::numeric_limits<std::int64_t>::min()),
            "from -9223372036854775808");
  EXPECT_EQ(sentence(std::string_view("ab"), "", "c"), "abc");
  EXPECT_EQ(sentence(), "");
}

TEST(Sentence, WritesValuesThatAreNotFinite) {
  EXPECT_EQ(sentence(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(sentence(-std::numeric_limits<float>::infinity()), "-inf");
}

TEST(Expects, PassesWhatHolds) {
  EXPECT_NO_THROW(expects(true, "never seen"));
  EXPECT_NO_THROW(expects<FormatError>(true, "never seen"));
}

TEST(Expects, ThrowsInvalidArgumentUnlessNamed) {
  EXPECT_EQ(what_of<std::invalid_argument>([] { expects(false, "heads is ", 7); }), "heads is 7");
  EXPECT_EQ(what_of<CacheFull>([] { expects<CacheFull>(false, 65, " tokens in ", 64); }),
            "65 tokens in 64");
  EXPECT_EQ(what_of<FormatError>([] { expects<FormatError>(false, "x: bad"); }), "x: bad");
}

TEST(Expects, WorksInConstantExpressions) {
  constexpr auto half = [](int number) {
    expects(number % 2 == 0, number, " is odd");
    return number / 2;
  };
  static_assert(half(6) == 3);
  EXPECT_THROW(half(7), std::invalid_argument);
}

// Counts how often its text was asked for.
struct Counted {
  explicit Counted(int& count) : count_(&count) {}
  operator std::string_view() const {
    ++*count_;
    return "text";
  }
  int* count_;
};

TEST(Expects, BuildsTheSentenceOnlyWhenItIsNeeded) {
  int built = 0;
  const Counted part(built);
  expects(true, part);
  EXPECT_EQ(built, 0);
  EXPECT_THROW(expects(false, part), std::invalid_argument);
  EXPECT_EQ(built, 1);
}

}  // namespace
}  // namespace decant
