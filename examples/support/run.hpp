// examples/support/run.hpp - how an example begins and ends: a command line and an exit code.
//
// Exit codes: 0 is done, 2 is a command line that means nothing, 1 is anything else. A failure is
// one sentence on standard error.
//
// Depends on  core/error.hpp, CLI11
// Tested by   tests/examples/refusals.cmake
#pragma once

#include <decant/core/error.hpp>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace examples {

// An argument that cannot be meant; the sentence names it.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What `read` returns; what it refuses becomes a usage error about `argument`.
template <class F>
decltype(auto) checked(std::string_view argument, F&& read) {
  try {
    return std::forward<F>(read)();
  } catch (const std::invalid_argument& error) {
    throw UsageError(decant::sentence(argument, ": ", error.what()));
  }
}

inline int failed(const CLI::App& app, std::string_view why, int exit_code) {
  std::cerr << app.get_name() << ": " << why << '\n';
  return exit_code;
}

// Reads the command line and runs `body`; the value is what main returns.
template <class F>
int run(CLI::App& app, int argc, char** argv, F&& body) {
  try {
    try {
      app.parse(argc, argv);
      body();
    } catch (const CLI::CallForHelp&) {
      std::cout << app.help();
    }
    std::cout.flush();
    return std::cout ? 0 : failed(app, "standard output cannot be written", 1);
  } catch (const CLI::ParseError& error) {
    return failed(app, error.what(), 2);
  } catch (const UsageError& error) {
    return failed(app, error.what(), 2);
  } catch (const std::bad_alloc&) {
    return failed(app, "there is not enough memory", 1);
  } catch (const std::exception& error) {
    return failed(app, error.what(), 1);
  }
}

}  // namespace examples
