// An engine for programs that are compiled without exceptions: it reports errors as values. Only
// engine.cpp includes decant, and only it is compiled with exceptions.
#pragma once

#include <memory>
#include <string>

// The text, or what went wrong: `error` is empty if nothing did.
struct Answer {
  std::string text;
  std::string error;
};

class Engine {
 public:
  // Null if the checkpoint cannot be loaded; `error` then says why.
  static std::unique_ptr<Engine> open(const std::string& folder, std::string& error) noexcept;
  ~Engine();

  Answer answer(const std::string& prompt, int max_new_tokens) noexcept;

 private:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts) noexcept;

  std::unique_ptr<Parts> parts_;
};
