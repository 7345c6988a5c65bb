#include "support/command_line.hpp"

#include <decant/files/utf8.hpp>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <new>

namespace examples {

using Option = CommandLine::Option;

Option& Option::required() {
  option_->required();
  return *this;
}
Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}
Option& Option::repeatable() {
  option_->take_all()->trigger_on_parse();
  return *this;
}
Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

CommandLine::CommandLine(const std::string& name, const std::string& about)
    : app_(std::make_unique<CLI::App>(about, name)) {}
CommandLine::~CommandLine() = default;

Option CommandLine::add(const std::string& name, const std::string& form, const std::string& about,
                        const std::function<std::string(const std::string&)>& read) {
  const auto take = [name, read](const std::string& text) {
    const std::string refusal = read(text);
    if (!refusal.empty()) throw CLI::ValidationError(name, refusal);
  };
  return Option(app_->add_option_function<std::string>(name, take, about)->type_name(form));
}

Option CommandLine::add_text(const std::string& name, std::string& value,
                             const std::string& about) {
  return add(name, "TEXT", about, [&value](const std::string& text) {
    value = text;
    return std::string();
  });
}

Option CommandLine::add_nonempty_text(const std::string& name, std::string& value,
                                      const std::string& about, const std::string& form) {
  return add(name, form, about, [&value](const std::string& text) {
    value = text;
    return text.empty() ? "is empty" : std::string();
  });
}

Option CommandLine::add_flag(const std::string& name, bool& value, const std::string& about) {
  return Option(app_->add_flag(name, value, about));
}

void CommandLine::set_footer(const std::string& text) { app_->footer(text); }

int CommandLine::run(int argc, char** argv, const std::function<void()>& body) {
  const auto failed = [&](std::string_view why, int exit_code) {
    std::cerr << app_->get_name() << ": " << decant::files::printable(why, 1 << 14) << '\n';
    return exit_code;
  };
  try {
    try {
      app_->parse(argc, argv);
      body();
    } catch (const CLI::CallForHelp&) {
      std::cout << app_->help();
    }
    std::cout.flush();
    return std::cout ? 0 : failed("standard output cannot be written", 1);
  } catch (const CLI::ParseError& error) {
    return failed(error.what(), 2);
  } catch (const UsageError& error) {
    return failed(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return failed("there is not enough memory", 1);
  } catch (const std::exception& error) {
    return failed(error.what(), 1);
  }
}

}  // namespace examples
