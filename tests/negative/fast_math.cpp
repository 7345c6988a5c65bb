// Arithmetic that may be reordered is refused at the first include.
#include <decant/core/config.hpp>

int main() {}
