// Compiled with -fno-exceptions and -fno-rtti.
#include "engine.hpp"

#include <iostream>

int main(int, char** argv) {
  std::string error;
  if (Engine::open("no such folder", error) != nullptr || error.empty()) return 1;
  std::cout << error << '\n';
  const std::unique_ptr<Engine> engine = Engine::open(argv[1], error);
  if (engine == nullptr) return 2;
  const Answer refused = engine->answer("ROMEO:", -1);
  if (refused.error.find("max_new_tokens is -1") == refused.error.npos) return 3;
  std::cout << refused.error << '\n' << engine->answer("ROMEO:", 20).text << '\n';
  return engine->answer("ROMEO:", 20).text.empty() ? 4 : 0;
}
