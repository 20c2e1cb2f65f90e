"""The pages of mmsb.h and mmsb.hpp: a section of a header is a page, in the header's order and with its comments.

clang-format keeps both in one form: a declaration and the comment above it stand between empty lines. The tests compare what
the pages have with what libclang finds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from prose import code, comment, indented

SECTION = re.compile(r"^/\* -{8,} (.+?) -{4} \*/\n", re.MULTILINE)
RULES = re.compile(
    r"^(?P<text>.*?)Errors: (?P<errors>.*?) Threads: (?P<threads>.*?) Blocks: (?P<blocks>.*?) Since (?P<since>[\d.]+)\.$"
)


@dataclass(frozen=True)
class Section:
    title: str
    text: str

    @property
    def slug(self) -> str:
        return re.sub(r"\W+", "-", self.title.lower())


def opening(text: str) -> str:
    """The comment that a header begins with."""
    return without_stars(text[: text.index("*/") + 2])


def sections(text: str) -> list[Section]:
    _, *parts = SECTION.split(text)
    return [Section(title[0].upper() + title[1:], body) for title, body in zip(parts[::2], parts[1::2])]


def without_stars(text: str) -> str:
    lines = text.strip().removeprefix("/*").removesuffix("*/").split("\n")
    return "\n".join([lines[0].strip(), *(line.strip(" ").removeprefix("*").rstrip() for line in lines[1:])]).strip("\n")


def take_comment(chunk: str) -> tuple[str, str]:
    """The comment in front of a declaration, and the declaration."""
    if not chunk.startswith("/*"):
        return "", chunk
    end = chunk.index("*/") + 2
    return without_stars(chunk[:end]), chunk[end:].strip("\n")


def heading(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n"


# ------------------------------------------------------------------------------------------------------------ C ----


def declared(declaration: str) -> dict[str, str]:
    """What a declaration of mmsb.h declares: names with the role that links to them."""
    if function := re.match(r"MMSB_API .*?\b(mmsb_\w+)\(", declaration, re.DOTALL):
        return {function[1]: "func"}
    names = dict.fromkeys(re.findall(r"^#define (MMSB_\w+)", declaration, re.MULTILINE), "macro")
    types = r"^typedef [^{;]*?\(\*(mmsb_\w+)\)|^typedef [^{;(]*?\b(mmsb_\w+);|^\} (mmsb_\w+);"
    names |= {name: "type" for found in re.findall(types, declaration, re.MULTILINE) for name in found if name}
    return names


def chunks(section: Section) -> list[tuple[str, str]]:
    """Comments and declarations of a section of mmsb.h; those of the preprocessor for its end are no part of the manual."""
    parts = (part.strip("\n") for part in re.split(r"\n\s*\n", section.text))
    return [take_comment(part) for part in parts if part and not part.startswith(("#endif", "#ifdef"))]


def c_names(text: str) -> dict[str, str]:
    return {
        name: role
        for section in sections(text)
        for _, declaration in chunks(section)
        for name, role in declared(declaration).items()
    }


def c_function(text: str, declaration: str, names: dict[str, str]) -> str:
    signature = " ".join(declaration.removeprefix("MMSB_API ").rstrip(";").split())
    *before, last = text.split("\n\n")
    lines = last.split("\n")
    # The rules may begin within a line, but never before the last one that has them.
    rules = RULES.match(" ".join(line.strip() for line in lines))
    if not rules:
        raise ValueError(f"the comment of {signature} does not end with errors, threads, blocking and release")
    start = next(i for i in reversed(range(len(lines))) if "Errors: " in lines[i])
    said = "\n\n".join([*before, "\n".join([*lines[:start], lines[start].split("Errors: ")[0].rstrip()])])
    fields = [f":{name.capitalize()}: {comment(rules[name], names)}" for name in ("errors", "threads", "blocks", "since")]
    return f".. c:function:: {signature}\n\n" + indented(comment(said, names) + "\n\n" + "\n".join(fields))


def c_chunk(text: str, declaration: str, names: dict[str, str]) -> str:
    if not declaration:
        return comment(text, names)
    here = declared(declaration)
    if "func" in here.values():
        return c_function(text, declaration, names)
    shown = "\n\n".join(filter(None, [comment(text, names), code(declaration.split("\n"), "c")]))
    types = [name for name, role in here.items() if role == "type"]
    own = types[0] if len(types) == 1 and "macro" not in here.values() else None
    hidden = [f".. c:{role}:: {name}\n   :no-typesetting:" for name, role in here.items() if name != own]
    if own:
        shown = f".. c:type:: {own}\n\n" + indented(shown)
    return "\n\n".join([*hidden, shown])


def c_page(section: Section, names: dict[str, str]) -> str:
    return "\n\n".join([heading(section.title), *(c_chunk(*chunk, names) for chunk in chunks(section))]) + "\n"


# ---------------------------------------------------------------------------------------------------------- C++ ----

CLASS = re.compile(r"^(?:template <.*?> )?(?:class|struct) (?:\[\[nodiscard\]\] )?(\w+(?:<\w+>)?)", re.MULTILINE)


def items(section: Section) -> list[tuple[str, str]]:
    """Comments and declarations of a section of mmsb.hpp: an empty line within braces ends none."""
    found: list[list[str]] = [[]]
    inside = False
    for line in section.text.split("\n"):
        if not line and not inside:
            found.append([])
            continue
        found[-1].append(line)
        if line.startswith("}"):
            inside = False
        elif line.endswith("{") and not line.startswith((" ", "namespace", "inline namespace")):
            inside = True
    parts = ("\n".join(lines).strip("\n") for lines in found)
    return [take_comment(part) for part in parts if part and not part.startswith(("#", "} /*", "}  //", "} //"))]


def without_bodies(declaration: str) -> str:
    """A declaration as its user sees it: no bodies of functions, nothing that is private."""
    out: list[str] = []
    end = ""
    for line in declaration.split("\n"):
        if end:
            end = "" if line == end else end
        elif line in ("  private:", "  protected:"):
            return "\n".join(out).rstrip() + "\n};"
        elif line.endswith("{") and not CLASS.match(line):
            out.append(re.sub(r"( : .*)?\s*\{$", ";", line))
            end = "    }" if line.startswith(" ") else "}"
        else:
            out.append(line)
    return "\n".join(out)


def cpp_page(section: Section, names: dict[str, str]) -> str:
    shown = [heading(section.title)]
    seen: set[str] = set()
    for text, declaration in items(section):
        name = CLASS.match(declaration)
        if name and name[1].startswith("end_"):
            continue  # the deleters
        body = "\n\n".join(filter(None, [comment(text, names), code(without_bodies(declaration).split("\n"), "cpp")]))
        if name and name[1] not in seen:
            seen.add(name[1])
            template = "template<class T> " if declaration.startswith("template <class") else "template<> " * ("<" in name[1])
            body = f".. cpp:class:: {template}mmsb::{name[1]}\n\n" + indented(body)
        shown.append(body)
    return "\n\n".join(shown) + "\n"
