"""Plain text of comments and docstrings as reStructuredText: escaped, with links where it names functions and documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MARKUP = re.compile(r"([\\*`|_])")
LINKED = re.compile(r"\b(?:(docs/[\w/-]+)\.md|((?:mmsb|MMSB)_\w+)(\(\))?)")
ITEM = re.compile(r"(- |\d+\. )")
NAMED = re.compile(r"([a-z]\w*(?:, [a-z]\w*)*): ")


def escaped(text: str) -> str:
    return MARKUP.sub(r"\\\1", text)


def inline(text: str, c_names: Mapping[str, str]) -> str:
    """One line of text. c_names: the role of each name of mmsb.h (func, type, macro)."""
    parts, end = [], 0
    for found in LINKED.finditer(text):
        document, name, _ = found.groups()
        if document:
            link = f":doc:`{document}.md </{document}>`"
        elif name in c_names:
            link = f":c:{c_names[name]}:`{name}`"
        else:
            continue
        parts += [escaped(text[end : found.start()]), f"\\ {link}\\ "]
        end = found.end()
    return "".join([*parts, escaped(text[end:])]).removeprefix("\\ ")


def paragraphs(lines: Iterable[str], width: int) -> list[str]:
    """Joins lines that were broken only because they were full, those before column width."""
    joined: list[str] = []
    last = ""
    for line in lines:
        first = line.split(" ", 1)[0]
        broken = joined and last and not (last.endswith((".", ":")) and len(last) + 1 + len(first) < width)
        if broken and line:
            joined[-1] += " " + line
        elif line:
            joined.append(line)
        last = line
    return joined


def indented(text: str, by: str = "   ") -> str:
    return "\n".join(by + line if line else "" for line in text.split("\n"))


def code(lines: list[str], language: str) -> str:
    return f".. code-block:: {language}\n\n" + indented("\n".join(lines).strip("\n"))


def comment(text: str, c_names: Mapping[str, str]) -> str:
    """The text of a comment of C. In a block whose lines go on deeper, behind words in a column, each of these is defined."""
    shown: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.split("\n")
        base = min(depth(line) for line in lines)
        deep = min((depth(line) for line in lines if depth(line) >= base + 4), default=0)
        heads = [line for line in lines if depth(line) < deep]
        if deep and all(line[deep - 1 : deep] == " " and line[deep : deep + 1].strip() for line in heads):
            meanings: dict[str, list[str]] = {}
            for line in lines:
                if term := line[:deep].strip():
                    meaning = meanings.setdefault(term, [])
                meaning.append(line[deep:])
            for term, meaning in meanings.items():
                said = "\n\n".join(inline(part, c_names) for part in paragraphs(meaning, 127 - deep))
                shown.append(f"{inline(term, c_names)}\n{indented(said)}")
        elif block.strip().isupper():
            shown.append(f".. rubric:: {inline(block.strip().capitalize(), c_names)}")
        else:
            shown += [inline(part, c_names) for part in paragraphs((line.strip() for line in lines), 127)]
    return "\n\n".join(shown)


def depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def docstring(lines: list[str], c_names: Mapping[str, str], has_parameters: bool = True) -> list[str]:
    """A docstring of the Python package: indented lines behind an empty one are code, "name: text" is about a parameter."""
    out: list[str] = []
    at, listed = 0, False
    while at < len(lines):
        line = lines[at]
        before = lines[at - 1] if at else ""
        if line.startswith("    ") and not before.strip() and not listed:
            block = []
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                block.append(lines[at][4:])
                at += 1
            out += ["", *code(block, "python").split("\n"), ""]
            continue
        indent = line[: len(line) - len(line.lstrip())]
        item = ITEM.match(line.lstrip())
        mark = item[1] if item else ""
        text = line.lstrip()[len(mark) :]
        if (item and not listed) or (listed and not item and not indent):
            out.append("")
        listed = bool(item) or (listed and (bool(indent) or not line))
        found = NAMED.match(text)
        if found and has_parameters and (item or not before or before.endswith((".", ":"))):
            if not item:
                out.append("")
            names = ", ".join(f"``{name}``" for name in found[1].split(", "))
            out.append(f"{indent}{mark}{names}: {spans(text[found.end() :], c_names)}")
        else:
            out.append(indent + mark + spans(text, c_names))
        at += 1
    return out


def spans(text: str, c_names: Mapping[str, str]) -> str:
    """Text with `code` in it."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(f"`{part}`" if part.startswith("`") and len(part) > 2 else inline(part, c_names) for part in parts)
