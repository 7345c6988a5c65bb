// tests/snapshots/snapshot_fields_test.cpp - saved sequences whose checksum is right and that
// contradict themselves: every field of int4, and of keys and values in formats of their own.
#include <decant/snapshots/snapshot.hpp>

#include "files/written_files.hpp"
#include "fuzz/snapshot_target.hpp"
#include "kv/stores.hpp"

#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::Int4;
using codec::Int8;
using files::SealedWriter;
using trial::kWideGeometry;

constexpr Index kTokens = 20;

// A file as a list of its parts, to be changed and written again.
class Parts {
 public:
  explicit Parts(std::span<const std::byte> bytes) {
    const files::Safetensors file = files::parse_sealed(bytes, "saved");
    metadata_.insert(file.metadata().begin(), file.metadata().end());
    for (const auto& [name, tensor] : file.tensors()) {
      if (name == "checksum") continue;
      entries_.push_back({name, tensor.dtype->name, tensor.shape});
      data_.emplace_back(tensor.data.begin(), tensor.data.end());
    }
  }

  void say(const std::string& field, const std::string& text) { metadata_[field] = text; }
  void forget(const std::string& field) { metadata_.erase(field); }

  // The tensor in another format or shape, with as many bytes as that takes.
  void reshape(std::string_view name, std::string_view dtype, std::vector<Index> shape) {
    const auto at = static_cast<std::size_t>(find(name) - entries_.begin());
    Index elements = 1;
    for (Index extent : shape) elements *= extent;
    const Index bits = std::ranges::find(files::kDtypes, dtype, &files::Dtype::name)->bits;
    data_[at].resize(static_cast<std::size_t>(elements * bits / 8));
    entries_[at].dtype = dtype;
    entries_[at].shape = std::move(shape);
  }
  void remove(std::string_view name) {
    const auto at = find(name) - entries_.begin();
    entries_.erase(entries_.begin() + at);
    data_.erase(data_.begin() + at);
  }

  std::string file() const {
    const trial::Folder folder;
    SealedWriter writer(folder.path() / "x", metadata_, entries_);
    for (const auto& bytes : data_) writer.write(bytes);
    writer.commit();
    return trial::read_file(folder.path() / "x");
  }

 private:
  std::vector<SealedWriter::Entry>::iterator find(std::string_view name) {
    return std::ranges::find(entries_, name, &SealedWriter::Entry::name);
  }

  SealedWriter::Metadata metadata_;
  std::vector<SealedWriter::Entry> entries_;
  std::vector<std::vector<std::byte>> data_;
};

// A sequence of 20 tokens in two layers of two heads, with keys of 71 elements and values of 45.
template <codec::Codec K, codec::Codec V>
std::string saved_sequence(const kv::Geometry& geometry = kWideGeometry) {
  const trial::Folder folder;
  kv::Contiguous<K, V> store(geometry, kTokens);
  std::vector<Index> ids(kTokens);
  std::iota(ids.begin(), ids.end(), Index{0});
  trial::append(store, ids);
  const std::vector<Token> tokens(ids.begin(), ids.end());
  snapshots::save_snapshot(folder.path() / "saved", store, tokens, "m");
  return trial::read_file(folder.path() / "saved");
}

// Whether the file is refused after `change`, or where it describes another shape, by the store.
template <codec::Codec K, codec::Codec V, class Change>
testing::AssertionResult refused(Change&& change) {
  const std::string saved = saved_sequence<K, V>();
  Parts parts(trial::bytes_of(saved));
  change(parts);
  const std::string bytes = parts.file();
  kv::Contiguous<K, V> store(kWideGeometry, kTokens);
  try {
    const auto snapshot = snapshots::Snapshot::parse(trial::bytes_of(bytes), "changed");
    try {
      snapshot.restore(store, "m");
    } catch (const std::invalid_argument& error) {
      if (store.end() > 0) return testing::AssertionFailure() << "the store is not empty";
      return testing::AssertionSuccess() << error.what();
    }
  } catch (const FormatError& error) {
    return testing::AssertionSuccess() << error.what();
  }
  return testing::AssertionFailure() << "accepted";
}

TEST(SnapshotFields, LeftAloneAreAccepted) {
  EXPECT_FALSE((refused<Int4, Int4>([](Parts&) {})));
  EXPECT_FALSE((refused<Int8, Int4>([](Parts&) {})));
}

TEST(SnapshotFields, OfFourBitsAgreeWithTheTensors) {
  using Field = std::pair<std::string, std::string>;
  for (const auto& [field, text] : std::vector<Field>{{"key_dim", "72"},
                                                      {"key_dim", "70"},
                                                      {"key_dim", "64"},
                                                      {"key_dim", "36"},
                                                      {"key_dim", "142"},
                                                      {"key_dim", "0"},
                                                      {"key_dim", "-71"},
                                                      {"key_dim", "71 "},
                                                      {"key_dim", "9223372036854775807"},
                                                      {"key_dim", "9223372036854775808"},
                                                      {"value_dim", "44"},
                                                      {"value_dim", "46"},
                                                      {"value_dim", "29"},
                                                      {"value_dim", "48"},
                                                      {"value_dim", "9223372036854775807"},
                                                      {"value_dim", ""},
                                                      {"heads", "1"},
                                                      {"heads", "3"},
                                                      {"heads", "4"},
                                                      {"layers", "1"},
                                                      {"layers", "3"},
                                                      {"keys", "int8"},
                                                      {"keys", "f32"},
                                                      {"keys", "fp8_e4m3"},
                                                      {"keys", "q4_0"},
                                                      {"keys", "int4 "},
                                                      {"values", "int8"},
                                                      {"values", "bf16"},
                                                      {"values", "q8_0"},
                                                      {"values", ""},
                                                      {"kept", "-1"},
                                                      {"kept", "x"},
                                                      {"version", "2"},
                                                      {"format", "x"},
                                                      {"model", "n"}}) {
    EXPECT_TRUE((refused<Int4, Int4>([&, field = field, text = text](Parts& parts) {
      parts.say(field, text);
    }))) << field
         << " is \"" << text << "\"";
  }
  for (const char* field : {"format", "version", "model", "layers", "heads", "key_dim", "value_dim",
                            "keys", "values", "kept"}) {
    EXPECT_TRUE((refused<Int4, Int4>([&](Parts& parts) { parts.forget(field); }))) << field;
  }
}

TEST(SnapshotFields, OfFourBitsHaveTheirTensors) {
  using Shape = std::vector<Index>;
  const auto reshaped = [](std::string_view name, std::string_view dtype, const Shape& shape) {
    return refused<Int4, Int4>([&](Parts& parts) { parts.reshape(name, dtype, shape); });
  };
  ASSERT_FALSE(reshaped("layers.1.keys", "U8", {2, kTokens, 36}));
  ASSERT_FALSE(reshaped("layers.1.key_scales", "F32", {2, kTokens, 3}));
  ASSERT_FALSE(reshaped("layers.1.value_scales", "F32", {2, kTokens, 2}));
  for (const Shape& shape : {Shape{2, kTokens, 35}, Shape{2, kTokens, 37}, Shape{2, kTokens, 71},
                             Shape{2, kTokens - 1, 36}, Shape{2, kTokens + 1, 36},
                             Shape{1, kTokens, 72}, Shape{kTokens, 2, 36}, Shape{2, kTokens * 36},
                             Shape{0, kTokens, 36}, Shape{2, kTokens, 36, 1}}) {
    EXPECT_TRUE(reshaped("layers.1.keys", "U8", shape)) << testing::PrintToString(shape);
  }
  for (const char* dtype : {"I8", "F32", "F8_E4M3", "BF16"}) {
    EXPECT_TRUE(reshaped("layers.1.keys", dtype, {2, kTokens, 36})) << dtype;
    EXPECT_TRUE(reshaped("layers.0.values", dtype, {2, kTokens, 29})) << dtype;
  }
  EXPECT_FALSE(reshaped("layers.0.values", "U8", {2, kTokens, 29}));
  for (const Shape& shape :
       {Shape{2, kTokens}, Shape{2, kTokens, 1}, Shape{2, kTokens, 2}, Shape{2, kTokens, 4},
        Shape{2, 3, kTokens}, Shape{2, kTokens - 1, 3}, Shape{3, kTokens, 2}}) {
    EXPECT_TRUE(reshaped("layers.1.key_scales", "F32", shape)) << testing::PrintToString(shape);
  }
  EXPECT_TRUE(reshaped("layers.1.key_scales", "F16", {2, kTokens, 3}));
  EXPECT_TRUE(reshaped("layers.1.value_scales", "F32", {2, kTokens, 3}));
  EXPECT_TRUE(reshaped("layers.1.value_scales", "I32", {2, kTokens, 2}));
  EXPECT_TRUE(reshaped("tokens", "I32", {kTokens - 1}));
  EXPECT_TRUE(reshaped("tokens", "I64", {kTokens}));
  for (const char* name : {"tokens", "layers.0.keys", "layers.1.values", "layers.0.key_scales",
                           "layers.1.value_scales"}) {
    EXPECT_TRUE((refused<Int4, Int4>([&](Parts& parts) { parts.remove(name); }))) << name;
  }
}

// Keys are not read as values, whatever the file calls them.
TEST(SnapshotFields, OfKeysAndValuesInFormatsOfTheirOwnAreNotExchanged) {
  const auto exchanged = [](Parts& parts) {
    parts.say("keys", "int4");
    parts.say("values", "int8");
  };
  EXPECT_TRUE((refused<Int8, Int4>(exchanged)));
  const auto both = [](const char* name) {
    return [name](Parts& parts) {
      parts.say("keys", name);
      parts.say("values", name);
    };
  };
  EXPECT_TRUE((refused<Int8, Int4>(both("int8"))));
  EXPECT_TRUE((refused<Int8, Int4>(both("int4"))));
  const std::string saved = saved_sequence<Int8, Int4>();
  const auto snapshot = snapshots::Snapshot::parse(trial::bytes_of(saved), "saved");
  EXPECT_EQ(snapshot.keys(), codec::Type::int8);
  EXPECT_EQ(snapshot.values(), codec::Type::int4);
  kv::Contiguous<Int4, Int8> other(kWideGeometry, kTokens);
  EXPECT_THROW(snapshot.restore(other, "m"), std::invalid_argument);
  EXPECT_EQ(other.end(), 0);
}

TEST(SnapshotFields, OfFourBitsCutAnywhereAreRefused) {
  const std::string bytes = saved_sequence<Int4, Int4>();
  for (std::size_t size = 0; size < bytes.size(); size += size < 1500 ? 1 : 61) {
    const auto cut = trial::bytes_of(std::string_view(bytes).substr(0, size));
    EXPECT_THROW(snapshots::Snapshot::parse(cut, "x"), FormatError) << size << " bytes";
    EXPECT_FALSE(fuzz::accepts_snapshot(cut)) << size << " bytes, sealed anew";
  }
}

// Any byte of the header made another, under a new checksum: refused, or a store filled with as
// many tokens as the file then says; never anything else, which would end the program.
TEST(SnapshotFields, OfFourBitsChangedAnywhereAreHarmless) {
  const std::string bytes = saved_sequence<Int4, Int4>({1, 1, 33, 40});
  int accepted = 0;
  const std::size_t end = std::min<std::size_t>(bytes.size(), 1000);
  for (std::size_t at = 0; at < end; at += trial::kSlowBuild ? 3 : 1) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1 << at % 7);
    accepted += fuzz::accepts_snapshot(trial::bytes_of(changed)) ? 1 : 0;
  }
  EXPECT_TRUE(fuzz::accepts_snapshot(trial::bytes_of(bytes)));
  EXPECT_GT(accepted, 0);  // the name of the model may be any, and so may tokens be
}

}  // namespace
