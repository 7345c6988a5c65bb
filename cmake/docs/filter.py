"""cmake/docs/filter.py HEADER - prints a header as Doxygen reads it best.

Our comments are plain sentences. This filter makes those before or behind a declaration its
documentation, and the comment at the top of a file that of the file; it turns our labels (Shape,
Units, Errors, ...) into paragraphs with a heading, and leaves out what is no interface: function
bodies, private members, and whatever is in a namespace `detail`.
"""
import re
import sys

LABEL = re.compile(r"(Shape|Units|Errors|Cost|Threads|Source|Tested by|Laws)"
                   r"(?: {2,}(\S.*)|$)")
TOKEN = re.compile(r'//[^\n]*|R"\((?s:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
                   r"|(?m:^)[ \t]*#(?:\\\n|[^\n])*|\w+|\s|.")
MEMBER = re.compile(r"^(?:template.*>\s)?[^(]*[\w>]::~?(?:operator\W+|\w+)\(", re.S)  # X::name(


def escaped(text):
    """Text in which Doxygen sees no command and no tag; what is between `quotes` stays code."""
    parts = text.split("`") if text.count("`") % 2 == 0 else [text]
    parts[::2] = [re.sub(r"[\\<>@&$#%|]|--", r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts)


def documented(lines, commands=()):
    """The lines of a comment, without their slashes, as one of Doxygen's, behind some commands."""
    result, verbatim, label = [], False, ""

    def set_verbatim(wanted):
        nonlocal verbatim
        if wanted != verbatim:
            result.append("\\verbatim" if wanted else "\\endverbatim")
        verbatim = wanted

    for line in (line.removeprefix(" ") for line in lines):
        found = LABEL.match(line)
        if found:  # a label: a paragraph with a heading; laws are one a line
            set_verbatim(False)
            label = found.group(1)
            result.append(f"\\par {label}")
            set_verbatim(label == "Laws")
            line = found.group(2) or ""
        elif not line.startswith("  "):
            label = ""
            set_verbatim(False)
        elif not label:  # an indented line: a formula, or a table
            set_verbatim(True)
        line = line.removeprefix(" " * 9 if label else "")
        result.append(line if verbatim else escaped(line.strip()))
    set_verbatim(False)
    text = "\n".join([*commands, *result])
    text = re.sub(r"/(?=\*)|\*(?=/)", "\\g<0>\u200b", text)  # neither begins nor ends a comment
    return f"/**\n{text}\n*/\n"


def head(source):
    """The path, the sentence and the further lines of the comment at the top of a header."""
    lines = [line[2:] for line in re.match(r"(?://.*\n)*", source).group().splitlines()]
    end = lines.index("") if "" in lines else len(lines)
    found = re.match(r"(decant/\S+) - (.*)", " ".join(line.strip() for line in lines[:end]))
    if not found:
        raise SystemExit(f"not '// decant/<path> - one sentence.': {lines[:1]}")
    return found.group(1), found.group(2), lines[end:]


def kind_of(statement):
    """What the brace behind `statement` opens: a namespace, a type, a value or a body."""
    if re.match(r"\s*(inline\s+)?namespace\b", statement):
        return "body" if re.search(r"\bdetail\s*$", statement) else "namespace"
    depth = 0  # of the angle brackets of "template <...>", whose parameters are no declaration
    for at, character in enumerate(statement if statement.lstrip().startswith("template") else ""):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == ">" and depth == 0:
            return kind_of(statement[at + 1:])
    if re.search(r"\b(class|struct|union|enum)\b[^()]*$", statement):
        return "type"
    return "value" if re.match(r"\s*concept\b|[^(]*$|.*=\s*$", statement, re.S) else "body"


def outline(source):
    """The source without function bodies, members defined outside their class, private members and
    namespaces `detail`."""
    out, statement, begin = [], "", 0  # the declaration so far, and where in `out` it begins
    scopes = []  # around it: [what kind_of() says, whether private members are declared now]
    skipped = 0  # braces open in what is left out
    for found in TOKEN.finditer(source):
        text = found.group()
        if skipped:
            skipped += {"{": 1, "}": -1}.get(text, 0)
            if not skipped and not re.match(r"\s*[,{]", source[found.end():]):
                statement = ""  # unless a constructor's list of initialisers goes on
            continue
        begin = begin if statement else len(out)
        if text == "{" and kind_of(statement) == "body":
            skipped = 1
            text = "{}"
            if MEMBER.search(statement):
                del out[begin:]
                text = ""
        elif text == "{":
            scopes.append([kind_of(statement), False])
            statement = statement if scopes[-1][0] == "value" else ""
        elif text == "}" and scopes:
            statement = statement if scopes.pop()[0] == "value" else ""
        elif text in ("public", "protected", "private") and not statement:
            scopes[-1][1] = text == "private"
        elif text.startswith("//"):
            text = "" if scopes and scopes[-1][0] == "value" else text
        elif not text.lstrip().startswith("#"):
            statement += text
            statement = "" if text == ";" or statement == ":" else statement.lstrip()
        if not any(private for _, private in scopes):
            out.append(text)
    return "".join(out)


def with_documentation(code):
    """An outline whose comments before and behind declarations are Doxygen's."""
    out, comment = [], []
    lines = code.splitlines() + [""]
    for at, line in enumerate(lines):
        text = line.strip()
        if text.startswith("//"):
            comment.append(text[2:])
            continue
        if comment and text and text[0] not in "}#":  # else a comment on nothing in particular
            out.append(documented(comment))
        comment = []
        behind = re.match(r"([^\"]*[^\s\"}])\s+//(.*)", line)
        if behind:
            column, text = line.index("//"), behind.group(2)
            while lines[at + 1].find("//") == column and lines[at + 1][:column].isspace():
                text += lines.pop(at + 1)[column + 2:]
            line = f"{behind.group(1)}  ///< {escaped(text.strip())}"
        out.append(line + "\n")
    return "".join(out)


def filtered(source):
    path, sentence, lines = head(source)
    code = re.sub(r"::inline DECANT_ABI", "", source)
    return (documented(lines, [f"\\file {path}", f"\\brief {escaped(sentence)}"]) +
            with_documentation(outline(code[code.index("#pragma once"):])))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        sys.stdout.write(filtered(header.read()))
