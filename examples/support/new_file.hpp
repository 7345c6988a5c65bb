// examples/support/new_file.hpp - a file that appears under its name when it is whole, or never.
//
// Depends on  core/error.hpp, support/run.hpp
// Tested by   tests/examples/refusals.cmake
#pragma once

#include <decant/core/error.hpp>

#include "support/run.hpp"

#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>

namespace examples {

// Written beside its place as <name>.part and renamed by commit(); removed if that never comes.
//
// Errors   std::runtime_error naming the file
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), part_(path + ".part") {
    std::error_code absent;
    const bool other = exists(path_, absent) && !is_regular_file(path_, absent);
    decant::expects<std::runtime_error>(!other, path, ": is there, and is no regular file");
    decant::expects<std::runtime_error>(!exists(part_, absent), part_.string(),
                                        ": is there, where the file grows until it is whole");
    out_.open(part_, std::ios::binary | std::ios::trunc);
    check(out_.is_open());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    std::error_code absent;
    if (!whole_) std::filesystem::remove(part_, absent);
  }

  void write(std::span<const float> numbers) {
    static_assert(std::endian::native == std::endian::little, "the file is little-endian");
    out_.write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size_bytes()));
    check(out_.good());
  }

  void commit() {
    out_.close();
    check(out_.good());
    std::error_code error;
    std::filesystem::rename(part_, path_, error);
    decant::expects<std::runtime_error>(!error, path_.string(),
                                        ": cannot be written: ", error.message());
    whole_ = true;
  }

 private:
  void check(bool held) const {
    decant::expects<std::runtime_error>(
        held, path_.string(), ": cannot be written: ", std::generic_category().message(errno));
  }

  std::filesystem::path path_, part_;
  std::ofstream out_;
  bool whole_ = false;
};

}  // namespace examples
