// decant/snapshots/detail/prefix_snapshot.hpp - definitions of snapshots/prefix_snapshot.hpp that
// are no templates.
//
// Tested by   tests/snapshots/prefix_snapshot_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/utf8.hpp>
#include <decant/snapshots/prefix_snapshot.hpp>
#include <decant/snapshots/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::snapshots {

DECANT_IO_INLINE PrefixSnapshot PrefixSnapshot::open(const std::filesystem::path& path) {
  files::MappedFile file(path);
  PrefixSnapshot result = parse(file.bytes(), files::printable_path(path));
  result.rows_.mapped_.emplace(std::move(file));
  return result;
}

DECANT_IO_INLINE PrefixSnapshot PrefixSnapshot::parse(std::span<const std::byte> bytes,
                                                      std::string name) {
  return PrefixSnapshot(Snapshot(files::parse_sealed(bytes, std::move(name)), detail::kPrefixes));
}

DECANT_IO_INLINE std::vector<Index> PrefixSnapshot::ends_of_branches() const {
  std::vector<bool> inner(parents_.size());
  for (std::int64_t parent : parents_) {
    if (parent >= 0) inner[static_cast<std::size_t>(parent)] = true;
  }
  std::vector<Index> ends;
  for (Index page = pages() - 1; page >= 0; --page) {
    if (!inner[static_cast<std::size_t>(page)]) ends.push_back(page);
  }
  return ends;
}

DECANT_IO_INLINE PrefixSnapshot::PrefixSnapshot(Snapshot rows) : rows_(std::move(rows)) {
  const std::string& file = rows_.file_.name();
  const auto found = rows_.file_.tensors().find("pages.parents");
  expects<FormatError>(found != rows_.file_.tensors().end() && found->second.shape.size() == 1,
                       file, ": has no pages.parents");
  const Index count = found->second.shape[0];
  const auto read = [&](const char* name, std::string_view dtype, std::vector<Index> shape,
                        auto& values) {
    const files::Tensor& tensor = rows_.tensor(name, dtype, shape);
    values.resize(tensor.data.size() / sizeof values[0]);
    if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  };
  std::vector<std::uint64_t> spaces;
  read("pages.parents", "I64", {count}, parents_);
  read("pages.spaces", "U64", {count, 3}, spaces);
  read("pages.priorities", "I32", {count}, priorities_);
  const Index tokens = std::ssize(rows_.tokens());
  expects<FormatError>(count == 0 ? tokens == 0 : tokens > 0 && tokens % count == 0, file, ": ",
                       tokens, " tokens in ", count, " pages");
  for (Index page = 0; page < count; ++page) {
    const auto at = static_cast<std::size_t>(page);
    spaces_.push_back({spaces[3 * at], spaces[3 * at + 1], spaces[3 * at + 2]});
    const std::int64_t parent = parents_[at];
    expects<FormatError>(parent >= -1 && parent < page, file, ": page ", page, " follows page ",
                         parent);
    expects<FormatError>(parent < 0 || spaces_[static_cast<std::size_t>(parent)] == spaces_[at],
                         file, ": page ", page, " follows one of another cache namespace");
  }
}

}  // namespace decant::inline DECANT_ABI::snapshots
