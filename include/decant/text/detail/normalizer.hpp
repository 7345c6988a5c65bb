// decant/text/detail/normalizer.hpp - rewrites text before it is cut: the "normalizer" of a
// tokenizer.json.
//
// A normaliser is a list of steps; a Sequence in the file is flattened into it. It sees one
// fragment at a time: the text between two added tokens.
//
// Source      Unicode Standard Annex 15 (normalisation forms); the format as Hugging Face's
//             tokenizers library writes it
// Tested by   tests/text/added_tokens_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/pattern.hpp>

#include <unicode/bytestream.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utypes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

// Each step takes a fragment and how long it may become.

// Puts `text` in front of whatever is not empty.
struct PrependText {
  std::string text;

  std::string operator()(std::string_view fragment, std::size_t) const {
    return fragment.empty() ? std::string() : text + std::string(fragment);
  }
};

struct ReplaceText {
  Pattern pattern;
  std::string content;

  std::string operator()(std::string_view fragment, std::size_t limit) const {
    return Scan(pattern).replace(fragment, content, limit);
  }
};

// One of Unicode's normalisation forms.
struct ComposeText {
  const icu::Normalizer2* form;

  std::string operator()(std::string_view fragment, std::size_t) const {
    std::string result;
    icu::StringByteSink<std::string> sink(&result);
    UErrorCode status = U_ZERO_ERROR;
    const icu::StringPiece source(fragment.data(), static_cast<std::int32_t>(fragment.size()));
    form->normalizeUTF8(0, source, sink, nullptr, status);
    if (U_FAILURE(status)) throw std::bad_alloc();  // valid text fails for want of memory only
    return result;
  }
};

// Every character for itself, without regard to its neighbours (a final sigma stays a sigma).
struct LowercaseText {
  std::string operator()(std::string_view fragment, std::size_t) const {
    std::string result;
    for (std::size_t at = 0; at < fragment.size();) {
      const files::Utf8Unit unit = files::read_utf8(fragment, at);
      icu::UnicodeString letter(static_cast<UChar32>(unit.code));
      letter.toLower(icu::Locale::getRoot()).toUTF8String(result);
      at += unit.length;
    }
    return result;
  }
};

// Drops white space at the ends.
struct StripText {
  bool left;
  bool right;

  std::string operator()(std::string_view fragment, std::size_t) const {
    std::size_t begin = fragment.size(), end = 0;
    for (std::size_t at = 0; at < fragment.size();) {
      const files::Utf8Unit unit = files::read_utf8(fragment, at);
      if (!u_isUWhiteSpace(static_cast<UChar32>(unit.code))) {
        begin = std::min(begin, at);
        end = at + unit.length;
      }
      at += unit.length;
    }
    if (!left) begin = 0;
    if (!right) end = fragment.size();
    return begin < end ? std::string(fragment.substr(begin, end - begin)) : std::string();
  }
};

// Valid UTF-8 in, valid UTF-8 out.
//
// Errors   from read: FormatError naming a component that is unknown or malformed; from a call:
//          FormatError when a step costs or grows too much (text/detail/pattern.hpp)
// Cost     linear in the fragment for each step
// Threads  immutable
class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  static Normalizer read(const files::JsonObject& component) {
    Normalizer normalizer;
    normalizer.place_ = component.place("type");
    normalizer.add(component);
    return normalizer;
  }

  std::string operator()(std::string_view fragment) const {
    const std::size_t limit = max_rewritten(fragment.size());
    std::string text(fragment);
    for (const Step& step : steps_) {
      text = std::visit([&](const auto& rewrite) { return rewrite(text, limit); }, step);
      expects<FormatError>(text.size() <= limit, place_, " makes a text of ", fragment.size(),
                           " bytes grow beyond ", limit);
    }
    return text;
  }

 private:
  using Step = std::variant<PrependText, ReplaceText, ComposeText, LowercaseText, StripText>;

  void add(const files::JsonObject& component) {
    const std::string type = component.text("type");
    if (type == "Sequence") {
      for (const files::JsonObject& member : component.objects("normalizers")) add(member);
    } else if (type == "Prepend") {
      steps_.push_back(PrependText{component.text("prepend")});
    } else if (type == "Replace") {
      steps_.push_back(ReplaceText{Pattern::read(component), component.text("content")});
    } else if (type == "Lowercase") {
      steps_.push_back(LowercaseText{});
    } else if (type == "Strip") {
      steps_.push_back(
          StripText{component.flag_or("strip_left", true), component.flag_or("strip_right", true)});
    } else {
      steps_.push_back(ComposeText{form(type, component)});
    }
  }

  static const icu::Normalizer2* form(std::string_view name, const files::JsonObject& component) {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* found = nullptr;
    if (name == "NFC") found = icu::Normalizer2::getNFCInstance(status);
    if (name == "NFD") found = icu::Normalizer2::getNFDInstance(status);
    if (name == "NFKC") found = icu::Normalizer2::getNFKCInstance(status);
    if (name == "NFKD") found = icu::Normalizer2::getNFKDInstance(status);
    expects<FormatError>(found != nullptr && U_SUCCESS(status), component.place("type"), " is \"",
                         files::printable(name), "\", a normalizer that is not known here");
    return found;
  }

  std::vector<Step> steps_;
  std::string place_;  // how sentences name it
};

}  // namespace decant::inline DECANT_ABI::text::detail
