"""cmake/docs/pages.py SOURCES OUT HEADERS... - writes the pages of the documentation for Doxygen.

From the Markdown files of the sources it makes pages whose links Doxygen can follow, and for each
folder of public headers a page that lists them, with the sentence that each begins with and what it
declares.
"""
import pathlib
import re
import shutil
import sys

from filter import escaped, head, outline

PAGES = {  # the path in the sources: the name of the page
    "cmake/docs/main.md": "main",
    "README.md": "first_steps",
    "cmake/docs/guide.md": "guide",
    "examples/README.md": "examples",
    "examples/models/shakespeare/README.md": "shakespeare",
    "bench/README.md": "figures",
    "bench/peers/README.md": "peers",
    "tests/README.md": "tests",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changes",
}

FOLDERS = {  # in the order in which includes point
    "core": "which words do all folders share?",
    "simd": "how is one vector operation done, the same on every machine?",
    "codec": "how is one value stored?",
    "kernels": "how is arithmetic done?",
    "kv": "where do keys and values live?",
    "attention": "which tokens does a token look at, and how much?",
    "model": "what is the network?",
    "decoding": "which token comes next, and for whom?",
    "files": "what do files hold?",
    "checkpoints": "where do weights come from?",
    "text": "how does text become tokens, and tokens text?",
    "snapshots": "how does a KV cache outlive its program?",
}

DECLARED = re.compile(r"^namespace (?P<namespace>[\w:]+) \{$|^(?P<end>\})$"
                      r"|^(?:class|struct|concept|enum class|using) (?P<type>\w+)\b(?!;|::)"
                      r"|^(?:[A-Za-z][\w:<>&*, ]* )?(?P<function>\w+)\(", re.M)  # no member
NOT_DECLARED = {"static_assert", "decltype", "operator"}


def page(root, at):
    """The text of a page for Doxygen: it has a name, and links to names of pages. What a link to
    anything else in the sources says becomes plain text."""
    def link(found):
        title, target = found.groups()
        if re.match(r"https?:", target):
            return found.group()
        path = (root / at).parent.joinpath(target).resolve().relative_to(root).as_posix()
        return f"[{title}](@ref {PAGES[path]})" if path in PAGES else title

    name, text = PAGES[at], (root / at).read_text()
    parts = re.split(r"^(```.*?^```)$", text, flags=re.M | re.S)  # every other one is code
    parts[::2] = [re.sub(r"(?<!!)\[([^]]+)\]\(([^)]+)\)", link, part) for part in parts[::2]]
    parts[1::2] = [re.sub(r"^```(\w+)", r"```{.\1}", part) for part in parts[1::2]]
    text = re.sub(r"(!\[[^]]*\]\()[\w/]*/", r"\1", "".join(parts))  # images by their name alone
    titles = {"main": "# decant", "first_steps": "# First steps {#first_steps}"}
    return re.sub(r"^# (.*)", titles.get(name, rf"# \1 {{#{name}}}"), text, count=1)


def declared(source):
    """Links to the types, concepts and functions that a header declares, in order, once each."""
    code = re.sub(r" *//.*", "", outline(re.sub(r"::inline DECANT_ABI", "", source)))
    code = re.sub(r"^(?:template ?<.*|requires.*)\n", "", code, flags=re.M)
    links, namespaces = {}, []
    for found in DECLARED.finditer(code):
        name = found["type"] or found["function"]
        if found["namespace"]:
            namespaces.append(found["namespace"])
        elif found["end"] and namespaces:
            namespaces.pop()
        elif name and name not in NOT_DECLARED:
            name = "::".join(namespaces + [name])
            links.setdefault(name, f"{found['type'] or found['function'] + '()'}")
    return ", ".join(f'@ref {name} "{shown}"' for name, shown in links.items())


def write_folder(out, folder, headers):
    namespace = "decant" if folder == "core" else f"decant::{folder}"
    lines = [f"# {folder}: {FOLDERS[folder]} {{#folder_{folder}}}", "",
             f"Namespace `{namespace}`, folder `include/decant/{folder}`.", "",
             "| header | what it is | what it declares |", "|---|---|---|"]
    for path, source in headers:
        name, sentence, _ = head(source)
        lines.append(f'| @ref {name} "{path.name}" | {escaped(sentence)} | {declared(source)} |')
    (out / f"folder_{folder}.md").write_text("\n".join(lines) + "\n")


def main(root, out, *headers):
    root, out = pathlib.Path(root).resolve(), pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    folders = {}
    for path in map(pathlib.Path, headers):
        folder = path.parent.name
        folders.setdefault(folder, []).append((path, path.read_text()))
    folders.pop("decant")  # the headers that include others
    for folder in folders:
        if folder not in FOLDERS:
            sys.exit(f"{__file__}: the folder {folder} has no line in FOLDERS")
        write_folder(out, folder, sorted(folders[folder]))
    table = ["| folder | the question that it answers |", "|---|---|"]
    table += [f"| [{folder}](@ref folder_{folder}) | {question} |"
              for folder, question in FOLDERS.items() if folder in folders]
    for at, name in PAGES.items():
        (out / f"{name}.md").write_text(page(root, at).replace("@FOLDERS@", "\n".join(table)))


if __name__ == "__main__":
    main(*sys.argv[1:])
