// decant/text/detail/metaspace.hpp - the Metaspace component of a tokenizer.json: a visible mark
// for spaces.
//
// It stands in two places of a file, as a pre-tokeniser that writes the mark and as a decoder that
// takes it away again, with the same fields.
//
// Source      Kudo and Richardson 2018, "SentencePiece", arXiv:1808.06226; the format as Hugging
//             Face's tokenizers library writes it
// Tested by   tests/text/pre_tokenizer_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>

#include <string>
#include <utility>

namespace decant::inline v0::text::detail {

struct Metaspace {
  // Which texts get a mark in front unless they start with one: every fragment between added
  // tokens, the one that opens the whole text, or none.
  enum class Prepend { always, first, never };

  std::string mark;  // one character
  Prepend prepend;
  bool split;  // cut before every mark

  // Errors   FormatError
  static Metaspace read(const files::JsonObject& component) {
    Metaspace fields{component.text("replacement"), read_prepend(component),
                     component.flag_or("split", true)};
    const bool one =
        !fields.mark.empty() && files::read_utf8(fields.mark, 0).length == fields.mark.size();
    expects<FormatError>(one, component.place("replacement"), " is not one character");
    return fields;
  }

 private:
  static Prepend read_prepend(const files::JsonObject& component) {
    // Files of before "prepend_scheme" say the same with "add_prefix_space".
    const bool adds = component.flag_or("add_prefix_space", true);
    const std::string scheme = component.text_or("prepend_scheme", adds ? "always" : "never");
    expects<FormatError>(adds || scheme == "never", component.place("prepend_scheme"), " is \"",
                         files::printable(scheme), "\", which contradicts add_prefix_space");
    if (scheme == "always") return Prepend::always;
    if (scheme == "first") return Prepend::first;
    expects<FormatError>(scheme == "never", component.place("prepend_scheme"), " is \"",
                         files::printable(scheme), "\", not always, first or never");
    return Prepend::never;
  }
};

}  // namespace decant::inline v0::text::detail
