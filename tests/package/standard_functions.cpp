// A program that uses both namespaces calls the standard's functions: of these names, decant has
// none, or the calls would be ambiguous or give other bits.
#include <decant/decant.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>

using namespace std;
using namespace decant;

template <class T>
bool standard(T x) {
  static_assert(same_as<decltype(exp(x)), T> && same_as<decltype(tanh(x)), T>);
  static_assert(same_as<decltype(abs(x)), T> && same_as<decltype(max(x, x)), const T&>);
  return exp(x) == std::exp(x) && tanh(x) == std::tanh(x) && abs(x) == std::abs(x) &&
         max(x, -x) == std::max(x, -x);
}

int main() { return standard(-0.7f) && standard(-0.7) ? 0 : 1; }
