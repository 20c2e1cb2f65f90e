"""The pages of the Julia package: what it exports, with the docstrings of its source, which are Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCSTRING = re.compile(r'^(?:"""\n(.*?)\n"""|"((?:[^"\\\n]|\\.)*)")\n(.+)', re.MULTILINE | re.DOTALL)
DEFINED = re.compile(r"(?:(?:Base\.)?@\w+ )?(?:function |mutable struct |struct |abstract type |const |primitive type )?(\w+!?)")
AGAIN = re.compile(r"^@doc \(@doc (\w+!?)\) (\w+!?)", re.MULTILINE)
ERROR = re.compile(r'^    \(\s*:(\w+),\s*"((?:[^"\\]|\\.)*)",?\s*\),', re.MULTILINE)
INCLUDED = re.compile(r'^include\("(\w+\.jl)"\)', re.MULTILINE)
REFERENCE = re.compile(r"\[`([^`]+)`\]\(@ref\)")


@dataclass(frozen=True)
class Entry:
    names: tuple[str, ...]
    signature: str
    text: str


def slug(name: str) -> str:
    return "julia-" + name.replace("!", "-bang").replace("_", "-").lower()


def definition(text: str) -> str:
    """The first line of a definition; all of an enumeration."""
    line, _, rest = text.partition("\n")
    return f"{line}\n{rest[: rest.index(chr(10) + 'end')]}\nend" if line.startswith("@enum") else line


def entries(source: str) -> list[Entry]:
    """What has a docstring in a file, in its order."""
    found: list[tuple[int, Entry]] = []
    at = 0
    while match := DOCSTRING.search(source, at):
        long, short, behind = match.groups()
        at = match.start(3)
        text = long or re.sub(r"\\(.)", r"\1", short)
        name = DEFINED.match(behind)
        if not name or behind.startswith("module "):
            continue
        signature, body = definition(behind), text
        if text.startswith("    "):
            head, _, body = text.partition("\n\n")
            signature = "\n".join(line[4:] for line in head.split("\n"))
        names = [name[1], *re.findall(r"^(\w+!?)(?=[({]|$)", signature, re.MULTILINE)]
        if signature.startswith("@enum"):
            names = re.findall(r"^(?:@enum |    )(\w+)", signature, re.MULTILINE)
        found.append((match.start(), Entry(tuple(dict.fromkeys(names)), signature.removesuffix(" begin"), body.strip("\n"))))
    for match in ERROR.finditer(source):
        found.append((match.start(), Entry((match[1],), f"struct {match[1]} <: AbstractMMSBError", match[2])))
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


def exported(folder: Path) -> set[str]:
    """The names that `using MMSB` brings."""
    names: set[str] = set()
    for file in INCLUDED.findall((folder / "MMSB.jl").read_text(encoding="utf-8")):
        if file != "LibMMSB.jl":  # its names stay there
            text = (folder / file).read_text(encoding="utf-8")
            names |= listed(text) | {match[1] for match in ERROR.finditer(text)}
    return names | listed((folder / "MMSB.jl").read_text(encoding="utf-8"))


def listed(text: str) -> set[str]:
    lines = re.findall(r"^export (.+)", text, re.MULTILINE)
    return {name for line in lines for name in re.split(r",\s*", line.strip())}


def page(file: Path, public: set[str]) -> tuple[str, str, set[str]] | None:
    """The title and the text of a file's page, and the names that have an entry there; None where nothing is public."""
    source = file.read_text(encoding="utf-8")
    again = {old: [new for was, new in AGAIN.findall(source) if was == old] for old, _ in AGAIN.findall(source)}
    shown: list[str] = []
    done: set[str] = set()
    for entry in entries(source):
        names = [name for name in entry.names if name in public and name not in done]
        names += [new for name in names for new in again.get(name, []) if new in public]
        names = list(dict.fromkeys(names))
        if not names:
            continue
        done.update(names)
        targets = "\n".join(f"({slug(name)})=" for name in names)
        index = "".join(f"```{{index}} single: {name} (Julia)\n```\n" for name in names)
        title = ", ".join(f"`{name}`" for name in names)
        text = REFERENCE.sub(lambda match: f"[`{match[1]}`](#{slug(match[1])})", entry.text)
        shown.append(f"{index}\n{targets}\n## {title}\n\n```julia\n{entry.signature}\n```\n\n{text}\n")
    if not shown:
        return None
    first = re.match(r'(?:# |")([^."\n]+)', source)
    said = first[1] if first else file.stem
    title, _, rest = said.partition(": ")
    about = f"{rest[0].upper()}{rest[1:]}.\n\n" if rest else ""
    if f"module {file.stem}" in source:
        title, about = file.stem, f"{said}.\n\n"
    return title, f"# {title}\n\n```{{highlight}} julia\n```\n\n{about}" + "\n".join(shown), done
