// Compiler options that allow reordered arithmetic are refused at the first include.
#include <decant/core/config.hpp>

int main() {}
