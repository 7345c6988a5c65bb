// examples/support/command_line.hpp - how an example reads its arguments, begins and ends.
//
// Exit codes: 0 is done, 2 is an invalid command line, 1 is any other failure. A failure is
// one sentence on standard error. The parsing library is slow to compile, so it is compiled
// once, in command_line.cpp.
//
// Tested by   tests/examples/refusals.cmake
#pragma once

#include <decant/core/error.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace examples {

// An invalid argument; the sentence names it.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns read(); std::invalid_argument from it becomes a usage error about `argument`.
template <class F>
decltype(auto) checked(std::string_view argument, F&& read) {
  try {
    return std::forward<F>(read)();
  } catch (const std::invalid_argument& error) {
    throw UsageError(decant::sentence(argument, ": ", error.what()));
  }
}

class CommandLine {
 public:
  // Further rules of an option.
  class Option {
   public:
    Option& required();
    Option& needs(const Option& other);
    Option& excludes(const Option& other);
    Option& repeatable();  // `read` gets each of its texts

   private:
    friend class CommandLine;
    explicit Option(CLI::Option* option) : option_(option) {}
    CLI::Option* option_;
  };

  CommandLine(const std::string& name, const std::string& about);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  // `read` gets the text of the option and returns what is wrong with it, or nothing. `form` is
  // what --help shows for the text.
  Option add(const std::string& name, const std::string& form, const std::string& about,
             const std::function<std::string(const std::string&)>& read);
  Option add_text(const std::string& name, std::string& value, const std::string& about);
  Option add_nonempty_text(const std::string& name, std::string& value, const std::string& about,
                           const std::string& form = "TEXT");
  Option add_flag(const std::string& name, bool& value, const std::string& about);

  // Sets the last paragraph of --help.
  void set_footer(const std::string& text);

  // Reads the arguments and runs `body`; the value is what main returns.
  int run(int argc, char** argv, const std::function<void()>& body);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace examples
