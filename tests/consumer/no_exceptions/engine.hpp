// An engine for programs that are compiled without exceptions: its results are values. Only
// engine.cpp sees decant, and is compiled with exceptions.
#pragma once

#include <memory>
#include <string>

// A text, or what went wrong.
struct Answer {
  std::string text;
  std::string error;
};

class Engine {
 public:
  // Null if the checkpoint cannot be opened; `error` then says why.
  static std::unique_ptr<Engine> open(const std::string& folder, std::string& error) noexcept;
  ~Engine();

  Answer answer(const std::string& prompt, int max_new_tokens) noexcept;

 private:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts) noexcept;

  std::unique_ptr<Parts> parts_;
};
