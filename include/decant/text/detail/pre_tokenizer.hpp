// decant/text/detail/pre_tokenizer.hpp - cuts text into the pieces that merges never cross: the
// "pre_tokenizer" of a tokenizer.json.
//
// The file's components come down to four kinds of step, applied in order to every piece: cut at a
// pattern, put a space in front, spell bytes as letters, mark spaces. Digits is a cut at \p{N},
// ByteLevel is space, cut and letters, Metaspace is marks and a cut.
//
// Source      the format as Hugging Face's tokenizers library writes it; the default pattern of
//             ByteLevel is GPT-2's
// Tested by   tests/text/pre_tokenizer_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/json.hpp>
#include <decant/text/detail/pattern.hpp>
#include <decant/text/detail/spelling.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

// A run of text, never empty. `opens` tells whether it starts where the whole text does.
struct Piece {
  std::string text;
  bool opens = false;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// What a cut does with its matches: `removed` drops them, `isolated` makes each a piece,
// `contiguous` makes each run of them a piece; the merged ones join a neighbour.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

inline constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A stretch of one piece while it is being cut.
struct Stretch {
  std::size_t begin;
  std::size_t end;
  bool match;
};

// Matches and the gaps between them, in order; together they are [0, size).
inline std::vector<Stretch> stretches(const std::vector<Match>& matches, std::size_t size) {
  std::vector<Stretch> all;
  std::size_t from = 0;
  for (const Match& match : matches) {
    if (from < match.begin) all.push_back({from, match.begin, false});
    all.push_back({match.begin, match.end, true});
    from = match.end;
  }
  if (from < size) all.push_back({from, size, false});
  return all;
}

// Lets stretches join the one before them where `joins(previous, next)` says so.
template <class Joins>
std::vector<Stretch> joined(const std::vector<Stretch>& all, Joins joins) {
  std::vector<Stretch> result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && joins(all[i - 1], all[i])) {
      result.back().end = all[i].end;
    } else {
      result.push_back(all[i]);
    }
  }
  return result;
}

// A match joins one neighbour, unless that is a match too.
inline std::vector<Stretch> apply(Behavior behavior, std::vector<Stretch> all) {
  using S = const Stretch&;
  switch (behavior) {
    case Behavior::removed:
      std::erase_if(all, [](S stretch) { return stretch.match; });
      return all;
    case Behavior::isolated:
      return all;
    case Behavior::contiguous:
      return joined(all, [](S a, S b) { return a.match == b.match; });
    case Behavior::merged_with_previous:
      return joined(all, [](S a, S b) { return b.match && !a.match; });
    case Behavior::merged_with_next:
      return joined(all, [](S a, S b) { return a.match && !b.match; });
  }
  return all;
}

struct CutAtPattern {
  Pattern pattern;
  Behavior behavior;
  bool invert = false;  // the gaps count as matches, and the matches as gaps

  void operator()(std::vector<Piece>& pieces) const {
    Scan scan(pattern);
    std::vector<Piece> cut;
    for (const Piece& piece : pieces) {
      std::vector<Stretch> all = stretches(scan(piece.text), piece.text.size());
      for (Stretch& stretch : all) stretch.match ^= invert;
      for (const Stretch& stretch : apply(behavior, std::move(all))) {
        if (stretch.begin == stretch.end) continue;
        cut.push_back({piece.text.substr(stretch.begin, stretch.end - stretch.begin),
                       piece.opens && stretch.begin == 0});
      }
    }
    pieces = std::move(cut);
  }
};

struct SpaceInFront {
  void operator()(std::vector<Piece>& pieces) const {
    for (Piece& piece : pieces) {
      if (piece.text.front() != ' ') piece.text.insert(0, 1, ' ');
    }
  }
};

struct SpellBytes {
  void operator()(std::vector<Piece>& pieces) const {
    for (Piece& piece : pieces) piece.text = to_byte_letters(piece.text);
  }
};

struct MarkSpaces {
  std::string mark;
  Metaspace::Prepend prepend;

  void operator()(std::vector<Piece>& pieces) const {
    for (Piece& piece : pieces) {
      std::string text;
      for (const char byte : piece.text) byte == ' ' ? text.append(mark) : text.append(1, byte);
      const bool wanted = prepend == Metaspace::Prepend::always ||
                          (prepend == Metaspace::Prepend::first && piece.opens);
      if (wanted && !text.starts_with(mark)) text.insert(0, mark);
      piece.text = std::move(text);
    }
  }
};

// Valid UTF-8 in; pieces out, whose texts spell bytes as letters where the file says so.
//
// Errors   from read: FormatError naming a component that is unknown or malformed; from a call:
//          FormatError when an expression costs too much (text/detail/pattern.hpp)
// Cost     linear in the text for each step
// Threads  immutable
class PreTokenizer {
 public:
  PreTokenizer() = default;  // one piece
  static PreTokenizer read(const files::JsonObject& component) {
    PreTokenizer pre_tokenizer;
    pre_tokenizer.add(component);
    return pre_tokenizer;
  }

  std::vector<Piece> operator()(std::string_view text, bool opens) const {
    std::vector<Piece> pieces;
    if (!text.empty()) pieces.push_back({std::string(text), opens});
    for (const Step& step : steps_) {
      std::visit([&](const auto& apply) { apply(pieces); }, step);
    }
    return pieces;
  }

 private:
  using Step = std::variant<CutAtPattern, SpaceInFront, SpellBytes, MarkSpaces>;

  void add(const files::JsonObject& component) {
    const std::string type = component.text("type");
    if (type == "Sequence") {
      for (const files::JsonObject& member : component.objects("pretokenizers")) add(member);
    } else if (type == "Split") {
      steps_.push_back(CutAtPattern{Pattern::read(component), read_behavior(component),
                                    component.flag_or("invert", false)});
    } else if (type == "ByteLevel") {
      if (component.flag_or("add_prefix_space", true)) steps_.push_back(SpaceInFront{});
      if (component.flag_or("use_regex", true)) {
        add_cut(component, kGpt2Expression, Behavior::isolated);
      }
      steps_.push_back(SpellBytes{});
    } else if (type == "Metaspace") {
      const auto fields = Metaspace::read(component);
      steps_.push_back(MarkSpaces{fields.mark, fields.prepend});
      if (fields.split) {
        steps_.push_back(CutAtPattern{Pattern::literal(fields.mark, component.place("replacement")),
                                      Behavior::merged_with_next});
      }
    } else {
      add_class(type, component);
    }
  }

  // Components that are a cut at a class of characters.
  void add_class(std::string_view type, const files::JsonObject& component) {
    if (type == "Digits") {
      const bool each = component.flag_or("individual_digits", false);
      add_cut(component, R"(\p{N})", each ? Behavior::isolated : Behavior::contiguous);
    } else if (type == "Punctuation") {
      const bool named = component.has("behavior");
      add_cut(component, R"([\p{P}$+<=>\^`|~])",
              named ? read_behavior(component) : Behavior::isolated);
    } else if (type == "WhitespaceSplit") {
      add_cut(component, R"(\s)", Behavior::removed);
    } else {
      expects<FormatError>(false, component.place("type"), " is \"", files::printable(type),
                           "\", a pre-tokenizer that is not known here");
    }
  }

  void add_cut(const files::JsonObject& component, std::string_view expression, Behavior behavior) {
    steps_.push_back(CutAtPattern{Pattern::regex(expression, component.place("type")), behavior});
  }

  static Behavior read_behavior(const files::JsonObject& component) {
    using Name = std::pair<std::string_view, Behavior>;
    static constexpr std::array kNames = {
        Name{"Removed", Behavior::removed}, Name{"Isolated", Behavior::isolated},
        Name{"MergedWithPrevious", Behavior::merged_with_previous},
        Name{"MergedWithNext", Behavior::merged_with_next},
        Name{"Contiguous", Behavior::contiguous}};
    const std::string text = component.text("behavior");
    const auto found = std::find_if(kNames.begin(), kNames.end(),
                                    [&](const Name& name) { return name.first == text; });
    expects<FormatError>(found != kNames.end(), component.place("behavior"), " is \"",
                         files::printable(text), "\", which is no behavior");
    return found->second;
  }

  std::vector<Step> steps_;
};

}  // namespace decant::inline DECANT_ABI::text::detail
