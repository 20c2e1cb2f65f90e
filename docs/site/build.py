"""Makes the documentation as HTML: the guides from where they lie, the reference from headers, packages and the tool.

    build/venv-docs/bin/python docs/site/build.py

What Sphinx reads is put into build/docs-src: the texts of the tree, and pages that are made of its sources. A page is written
only where it changes, and Sphinx reads again what has changed. The site is build/docs. Anything that Sphinx warns of, a link
that leads nowhere and a page that needs the network are errors.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import headers
import julia
import prose

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "build/docs-src"
STATE = ROOT / "build/docs-state"
OUT = ROOT / "build/docs"

# The menu: its parts, with their pages. A text of docs/ that is in none of them is an error.
MENU = {
    "Start": ["Overview <index>", "docs/guides", "docs/state-that-survives", "docs/glossary"],
    "Guides": ["docs/interchange", "docs/plug-ins", "docs/commands", "docs/contract"],
    "Reference": [
        "C <reference/c/index>",
        "C++ <reference/cpp/index>",
        "Python <reference/python/index>",
        "Julia <reference/julia/index>",
        "The tool <reference/tool>",
        "docs/snapshot-format",
        "docs/journal-format",
        "docs/abi",
        "Index of names <genindex>",
        "Programs and files <files/index>",
    ],
    "How it is made": [
        "Documents <docs/README>",
        "docs/architecture",
        "docs/devices",
        "docs/testing",
        "docs/torch-results/README",
        "docs/gpu-results/README",
        "docs/performance",
        "docs/rationale",
        "docs/plan",
        "Changes <CHANGELOG>",
        "CONTRIBUTING",
        "SECURITY",
    ],
}

# Pages that show what a link to a file means.
PAGES_OF_FILES = {
    "README.md": "index",
    "include/mmsb.h": "reference/c/index",
    "include/mmsb.hpp": "reference/cpp/index",
    "build/mmsb": "reference/tool",
}

LANGUAGES = {".py": "python", ".c": "c", ".cpp": "cpp", ".jl": "julia", ".sh": "bash"}


# Classes of Python that programs construct; others come from methods, and their constructors are not part of the interface.
CONSTRUCTED = {"mmsb.CommandBuffer", "mmsb.Context", "mmsb.Snapshot", "mmsb.state.dcp.Reader", "mmsb.state.dcp.Writer"}


def texts() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def menu() -> str:
    """The menu, behind the text of the start page."""
    parts = (
        "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]) for caption, pages in MENU.items()
    )
    return "\n\n" + "\n\n".join(parts).replace("Overview <index>", "Overview <self>") + "\n"


def toctree(pages: list[str]) -> str:
    return ".. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   {page}\n" for page in pages)


# ------------------------------------------------------------------------------------------------------ sources ----


class Pages:
    """The folder that Sphinx reads. What is not put there again goes away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: set[Path] = set()

    def write(self, name: str, text: str | bytes) -> None:
        path = self.folder / name
        self.kept.add(path)
        content = text.encode() if isinstance(text, str) else text
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def sweep(self) -> None:
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self.kept:
                path.unlink()


def linked_files() -> list[str]:
    """Files of the tree that texts link to, and that no page is about."""
    names = set()
    for text in texts():
        for target in re.findall(r"\]\(([^)#\s]+)", text.read_text(encoding="utf-8")):
            path = (text.parent / target).resolve()
            if path.is_file() and path.suffix not in (".md", ".png") and path.is_relative_to(ROOT):
                names.add(str(path.relative_to(ROOT)))
    return sorted(names - set(PAGES_OF_FILES))


def write_texts(pages: Pages) -> None:
    for text in texts():
        name = str(text.relative_to(ROOT))
        content = text.read_text(encoding="utf-8")
        pages.write(*(("index.md", content + menu()) if name == "README.md" else (name, content)))
    for picture in ROOT.glob("docs/pictures/*"):
        pages.write(str(picture.relative_to(ROOT)), picture.read_bytes())
    names = linked_files()
    for name in names:
        language = LANGUAGES.get(Path(name).suffix, "text")
        include = f".. literalinclude:: /../../{name}\n   :language: {language}\n"
        pages.write(f"files/{name}.rst", headers.heading(name) + "\n" + include)
    about = "The programs and files that the texts name, as they are in the source.\n\n"
    pages.write("files/index.rst", headers.heading("Programs and files") + "\n" + about + toctree(names))


def write_headers(pages: Pages) -> None:
    c = (ROOT / "include/mmsb.h").read_text(encoding="utf-8")
    cpp = (ROOT / "include/mmsb.hpp").read_text(encoding="utf-8")
    names = headers.c_names(c)
    for folder, title, text, page in (("c", "C", c, headers.c_page), ("cpp", "C++", cpp, headers.cpp_page)):
        sections = headers.sections(text)
        for section in sections:
            pages.write(f"reference/{folder}/{section.slug}.rst", page(section, names))
        parts = [headers.heading(title), prose.comment(headers.opening(text), names), toctree([s.slug for s in sections])]
        pages.write(f"reference/{folder}/index.rst", "\n\n".join(parts))


def exports(module: Path) -> dict[str, list[str]]:
    """The names in __all__ of a package, by the module of it that each comes from."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    public: list[str] = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    )
    froms = (node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module)
    found = {str(node.module): [alias.name for alias in node.names if alias.name in public] for node in froms}
    return {name: names for name, names in found.items() if names}


def first_line(module: Path) -> str:
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").split("\n")[0].rstrip(".")


def python_entry(package: str, name: str) -> str:
    if name.endswith(("Error", "Warning")):
        return f".. autoexception:: {package}.{name}\n"
    if name[0].islower():
        return f".. autofunction:: {package}.{name}\n"
    both = "   :class-doc-from: both\n" if f"{package}.{name}" in CONSTRUCTED else ""
    return f".. autoclass:: {package}.{name}\n{both}"


def write_python(pages: Pages) -> None:
    package = ROOT / "bindings/python/src/mmsb"
    written = {}
    for module, names in sorted(exports(package / "__init__.py").items(), key=lambda item: item[0].lstrip("_")):
        title = module.lstrip("_")
        written[title] = first_line(package / f"{module}.py")
        text = [headers.heading(title[0].upper() + title[1:]), written[title] + ".", ".. currentmodule:: mmsb"]
        pages.write(f"reference/python/{title}.rst", "\n\n".join([*text, *(python_entry("mmsb", name) for name in names)]))
    state = [headers.heading("mmsb.state"), ".. automodule:: mmsb.state\n   :no-members:"]
    states = (python_entry("mmsb.state", name) for names in exports(package / "state/__init__.py").values() for name in names)
    pages.write("reference/python/state.rst", "\n\n".join([*state, *states]))
    for module in ("state.dcp", "plugins"):
        pages.write(f"reference/python/{module}.rst", headers.heading(f"mmsb.{module}") + f"\n.. automodule:: mmsb.{module}\n")
    for module in ("state/__init__", "state/dcp", "plugins"):
        written[module.removesuffix("/__init__").replace("/", ".")] = first_line(package / f"{module}.py")
    about = ".. automodule:: mmsb\n   :no-members:"
    lines = "\n".join(f"- :doc:`{page}`: {prose.inline(said, {})}" for page, said in written.items())
    parts = [headers.heading("Python"), about, lines, toctree(list(written)).replace(":maxdepth: 1", ":hidden:")]
    pages.write("reference/python/index.rst", "\n\n".join(parts))


def write_julia(pages: Pages) -> None:
    folder = ROOT / "bindings/julia/src"
    public = julia.exported(folder)
    package = (folder / "MMSB.jl").read_text(encoding="utf-8")
    written = []
    for name in julia.INCLUDED.findall(package):
        if made := julia.page(folder / name, public):
            title, text, done = made
            public -= done
            pages.write(f"reference/julia/{Path(name).stem}.md", text)
            written.append(f"{title} <{Path(name).stem}>")
    if public:
        raise ValueError(f"exported by the Julia package without a docstring: {', '.join(sorted(public))}")
    about = package.split('"""')[1].strip()
    menu = "\n".join(["```{toctree}", ":maxdepth: 1", "", *written, "```"])
    pages.write("reference/julia/index.md", f"# Julia\n\n{about}\n\n{menu}\n")


def tool_help(command: list[str]) -> list[tuple[str, str]]:
    """A command and those below it, with their help."""
    ran = subprocess.run([ROOT / "build/mmsb", *command, "--help"], check=True, capture_output=True, text=True)
    found = [(" ".join(["mmsb", *command]), ran.stdout)]
    below = re.search(r"^Available Commands:\n((?:  .*\n)+)", ran.stdout, re.MULTILINE)
    for line in below[1].splitlines() if below else []:
        if (name := line.split()[0]) not in ("help", "completion"):
            found += tool_help([*command, name])
    return found


def write_tool(pages: Pages) -> None:
    shown = (f"## `{name}`\n\n```text\n{text.strip()}\n```\n" for name, text in tool_help([]))
    pages.write("reference/tool.md", "# The tool\n\n" + "\n".join(shown))


# -------------------------------------------------------------------------------------------------------- checks ----


class Page(HTMLParser):
    """What a page of HTML names and leads to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.update(given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a"))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "href" in given and given.get("rel") not in ("canonical",):
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


def faults(folder: Path) -> list[str]:
    """Links of a site to files and places that are not there, and what its pages load from elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder)
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    found.append(f"{name}: loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{name}: {link} is no file of the site")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{name}: {link} is no place of that page")
    for path in sorted(folder.rglob("*.css")):
        loads = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"']+)", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(folder)}: loads {link}" for link in loads]
    return found


# --------------------------------------------------------------------------------------------------------- build ----


def render(source: Path, state: Path, out: Path) -> bool:
    """Makes HTML of a folder of sources. A build that fails leaves no state: the next one must warn again."""
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--jobs=auto"]
    done = subprocess.run([*command, f"--conf-dir={Path(__file__).parent}", f"--doctree-dir={state}", source, out])
    if done.returncode != 0:
        shutil.rmtree(state, ignore_errors=True)
        return False
    of_sphinx = {"genindex.html", "py-modindex.html", "search.html"}
    kept = {str(path.relative_to(source).with_suffix(".html")) for path in source.rglob("*.*") if path.suffix in (".md", ".rst")}
    for path in out.rglob("*.html"):
        if str(path.relative_to(out)) not in kept | of_sphinx:
            path.unlink()
    for fault in (found := faults(out)):
        print(fault, file=sys.stderr)
    return not found


def main() -> int:
    pages = Pages(SOURCE)
    for write in (write_texts, write_headers, write_python, write_julia, write_tool):
        write(pages)
    pages.sweep()
    if not render(SOURCE, STATE, OUT):
        return 1
    print(f"{OUT.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
