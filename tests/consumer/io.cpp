// The optional component io: a missing folder is refused by name.
#include <decant/text/tokenizer.hpp>

#include <cstdio>
#include <exception>
#include <string_view>

int main() try {
  decant::text::Tokenizer::open("no/such/folder/tokenizer.json");
  return 1;
} catch (const std::exception& refusal) {
  std::puts(refusal.what());
  return std::string_view(refusal.what()).find("no/such/folder") == std::string_view::npos;
}
