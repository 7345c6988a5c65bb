// decant/text/detail/token_decoder.hpp - from tokens back to text, one at a time: the "decoder" of
// a tokenizer.json.
//
// The file describes a chain of rewrites of a whole list of tokens. Here every step is a
// transducer with a little memory (bytes of a half-finished character, how much of a leading space
// is gone), so the same chain streams, and decoding a list is pushing its tokens one by one.
// Whatever the chain is, the pieces of a stream add up to the text of the list.
//
// Steps before a Fuse (or ByteLevel, which fuses) see single tokens, steps behind it see one text.
//
// Source      the format as Hugging Face's tokenizers library writes it. Two differences: bytes
//             that are no text become one U+FFFD per maximal subpart, and Metaspace takes one mark
//             from the front, not all marks of the first token
// Tested by   tests/text/text_stream_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/pattern.hpp>
#include <decant/text/detail/spelling.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

// What one step remembers of one stream.
struct StepMemory {
  files::Utf8Stream bytes;
  std::string held;          // text that may still change
  Index taken = 0;           // characters stripped from the front
  bool begun = false;        // something has passed
  std::optional<Scan> scan;  // if the step has a Pattern
};

// What passes from step to step. `added` marks the text of an added token, `last` the end.
struct Passing {
  std::string text;
  bool added = false;
  bool last = false;
  std::size_t limit = max_rewritten(text.size());
};

// Without a decoder, tokens are words.
struct JoinWords {
  std::string operator()(const Passing& in, StepMemory& memory) const {
    if (in.text.empty()) return {};
    const bool first = !std::exchange(memory.begun, true);
    return first ? in.text : " " + in.text;
  }
};

struct UnspellBytes {
  std::string operator()(const Passing& in, StepMemory& memory) const {
    std::optional<std::string> bytes;
    if (!in.added) bytes = from_byte_letters(in.text);
    std::string text = memory.bytes.push(bytes ? *bytes : in.text);
    return in.last ? text + memory.bytes.finish() : text;
  }
};

// Tokens <0x00> to <0xFF> are bytes.
struct JoinBytes {
  std::string operator()(const Passing& in, StepMemory& memory) const {
    if (const auto byte = byte_of(in.text)) {
      std::string text = memory.bytes.push({&*byte, 1});
      return in.last ? text + memory.bytes.finish() : text;
    }
    if (in.text.empty() && !in.last) return {};
    return memory.bytes.finish() + in.text;
  }

  static std::optional<char> byte_of(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
    const int high = digit(text[3]), low = digit(text[4]);
    if (high < 0 || low < 0) return std::nullopt;
    return static_cast<char>(high * 16 + low);
  }
  static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  }
};

struct UnmarkSpaces {
  Metaspace fields;
  Pattern pattern;  // the mark

  std::string operator()(const Passing& in, StepMemory& memory) const {
    std::string_view rest = in.text;
    if (rest.empty()) return {};
    const bool first = !std::exchange(memory.begun, true);
    if (first && fields.prepend != Metaspace::Prepend::never && rest.starts_with(fields.mark)) {
      rest.remove_prefix(fields.mark.size());
    }
    return memory.scan->replace(rest, " ", in.limit);
  }
};

struct ReplaceInTokens {
  Pattern pattern;
  std::string content;
  bool fused;

  std::string operator()(const Passing& in, StepMemory& memory) const {
    if (!fused) return memory.scan->replace(in.text, content, in.limit);
    const std::string text = std::exchange(memory.held, {}) + in.text;
    const std::size_t held = in.last ? 0 : unfinished(text);
    memory.held = text.substr(text.size() - held);
    return memory.scan->replace(std::string_view(text).substr(0, text.size() - held), content,
                                in.limit);
  }

 private:
  // How many bytes at the end may be the start of a match that continues.
  std::size_t unfinished(std::string_view text) const {
    const std::string& literal = pattern.literal_text();
    std::size_t tail = 0;  // behind the last whole match
    for (auto at = text.find(literal); at != text.npos; at = text.find(literal, tail)) {
      tail = at + literal.size();
    }
    std::size_t held = std::min(text.size() - tail, literal.size() - 1);
    while (held > 0 && !text.ends_with(std::string_view(literal).substr(0, held))) --held;
    return held;
  }
};

// Drops up to `start` characters `content` at the front, and up to `stop` at the back.
struct StripEnds {
  std::string content;
  Index start;
  Index stop;
  bool fused;

  std::string operator()(const Passing& in, StepMemory& memory) const {
    if (!fused) return strip_one(in.text);
    std::string_view rest = in.text;
    while (!memory.begun && memory.taken < start && rest.starts_with(content)) {
      rest.remove_prefix(content.size());
      memory.taken += 1;
    }
    memory.begun = memory.begun || !rest.empty();
    std::string text = std::exchange(memory.held, {}).append(rest);
    const std::size_t passed = text.size() - trailing(text);
    if (!in.last) memory.held = text.substr(passed);
    return text.substr(0, passed);
  }

 private:
  std::string strip_one(std::string_view text) const {
    for (Index i = 0; i < start && text.starts_with(content); ++i)
      text.remove_prefix(content.size());
    return std::string(text.substr(0, text.size() - trailing(text)));
  }
  // Bytes of the up to `stop` characters at the end.
  std::size_t trailing(std::string_view text) const {
    std::size_t bytes = 0;
    for (Index i = 0; i < stop && text.ends_with(content); ++i) {
      text.remove_suffix(content.size());
      bytes += content.size();
    }
    return bytes;
  }
};

// Errors   from read: FormatError naming a component that is unknown or malformed
// Threads  immutable; a DecoderRun belongs to one stream
class TokenDecoder {
 public:
  TokenDecoder() : steps_{JoinWords{}} {}
  static TokenDecoder read(const files::JsonObject& component) {
    TokenDecoder decoder;
    decoder.steps_.clear();
    decoder.add(component);
    return decoder;
  }

  // The bytes of a token that is not special, in the middle of a text.
  std::string bytes_of(std::string_view spelling, bool added) const {
    std::string text(spelling);
    for (const Step& step : steps_) {
      if (std::holds_alternative<UnspellBytes>(step)) {
        if (!added) text = from_byte_letters(text).value_or(text);
      } else if (std::holds_alternative<JoinBytes>(step)) {
        if (const auto byte = JoinBytes::byte_of(text)) return {*byte};
      } else if (const Pattern* pattern = pattern_of(step)) {
        const auto* replace = std::get_if<ReplaceInTokens>(&step);
        text = Scan(*pattern).replace(text, replace ? replace->content : " ",
                                      max_rewritten(text.size()));
      }
    }
    return text;
  }

 private:
  friend class DecoderRun;
  using Step =
      std::variant<JoinWords, UnspellBytes, JoinBytes, UnmarkSpaces, ReplaceInTokens, StripEnds>;

  void add(const files::JsonObject& component) {
    const std::string type = component.text("type");
    if (type == "Sequence") {
      for (const files::JsonObject& member : component.objects("decoders")) add(member);
    } else if (type == "ByteLevel") {
      steps_.push_back(UnspellBytes{});
      fused_ = true;
    } else if (type == "ByteFallback") {
      steps_.push_back(JoinBytes{});
    } else if (type == "Fuse") {
      fused_ = true;
    } else if (type == "Metaspace") {
      auto fields = Metaspace::read(component);
      auto mark = Pattern::literal(fields.mark, component.place("replacement"));
      steps_.push_back(UnmarkSpaces{std::move(fields), std::move(mark)});
    } else if (type == "Replace") {
      add_replace(component);
    } else if (type == "Strip") {
      add_strip(component);
    } else {
      expects<FormatError>(false, component.place("type"), " is \"", type,
                           "\", a decoder that is not known here");
    }
  }

  void add_replace(const files::JsonObject& component) {
    Pattern pattern = Pattern::read(component);
    expects<FormatError>(!fused_ || !pattern.is_regex(), component.place("pattern"),
                         " is an expression behind a Fuse, which cannot be streamed");
    expects<FormatError>(!fused_ || pattern.literal_text().size() <= kMaxHeld,
                         component.place("pattern"), " is longer than ", kMaxHeld, " bytes");
    steps_.push_back(ReplaceInTokens{std::move(pattern), component.text("content"), fused_});
  }

  void add_strip(const files::JsonObject& component) {
    StripEnds step{component.text("content"), component.integer("start"), component.integer("stop"),
                   fused_};
    const bool one =
        !step.content.empty() && files::read_utf8(step.content, 0).length == step.content.size();
    expects<FormatError>(one, component.place("content"), " is not one character");
    expects<FormatError>(step.start >= 0 && step.start <= kMaxHeld, component.place("start"),
                         " is ", step.start, ", outside [0, ", kMaxHeld, "]");
    expects<FormatError>(step.stop >= 0 && step.stop <= kMaxHeld, component.place("stop"), " is ",
                         step.stop, ", outside [0, ", kMaxHeld, "]");
    steps_.push_back(std::move(step));
  }

  static const Pattern* pattern_of(const Step& step) {
    if (const auto* marks = std::get_if<UnmarkSpaces>(&step)) return &marks->pattern;
    if (const auto* replace = std::get_if<ReplaceInTokens>(&step)) return &replace->pattern;
    return nullptr;
  }

  static constexpr Index kMaxHeld = 256;  // what a step may hold back stays small

  std::vector<Step> steps_;
  bool fused_ = false;  // while reading: the steps so far end in one text
};

// One stream through the chain. It must not outlive the decoder.
//
// Errors   FormatError when a replacement costs or grows too much (text/detail/pattern.hpp)
// Cost     push is linear in the text of the token, and in a pattern behind a Fuse
class DecoderRun {
 public:
  explicit DecoderRun(const TokenDecoder& decoder) : decoder_(&decoder) {
    for (const auto& step : decoder.steps_) {
      memory_.emplace_back();
      if (const Pattern* pattern = TokenDecoder::pattern_of(step)) {
        memory_.back().scan.emplace(*pattern);
      }
    }
  }

  // The text that has become certain with this token; valid UTF-8.
  std::string push(std::string text, bool added) { return pass({std::move(text), added}); }
  // The rest; the last call.
  std::string finish() { return pass({.text = {}, .last = true}); }

 private:
  std::string pass(Passing passing) {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      passing.text = std::visit([&](const auto& step) { return step(passing, memory_[i]); },
                                decoder_->steps_[i]);
    }
    return std::move(passing.text);
  }

  const TokenDecoder* decoder_;
  std::vector<StepMemory> memory_;
};

}  // namespace decant::inline DECANT_ABI::text::detail
