"""Every function of mmsb.h is documented whole and reaches the symbols file, both bindings and the C tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Function, parse_header

# What the comment of a function must say, each with what it looks like.
SECTIONS = {
    "Errors:": r"Errors: \S",
    "Threads:": r"Threads: \S",
    "Blocks:": r"Blocks: \S",
    "Since": r"Since \d+\.\d+\. \*/$",
}

PYTHON_TABLE = "bindings/python/src/mmsb/_ffi.py"
JULIA_TABLE = "bindings/julia/src/LibMMSB.jl"

# Where every function must be named: a file, or all source files below a folder. The bindings' own tests see to it that each of
# their public names is tested, and compare their tables with the header's types.
PLACES = ["abi/libmmsb.symbols", PYTHON_TABLE, JULIA_TABLE, "tests/c"]


def missing_sections(function: Function) -> list[str]:
    comment = re.sub(r"\n \* ?", " ", function.comment.strip())
    return [section for section, pattern in SECTIONS.items() if not re.search(pattern, comment)]


def words_below(place: Path) -> set[str]:
    below = (file for file in place.rglob("*") if file.suffix in {".c", ".h", ".cpp"})
    files = [place] if place.is_file() else list(below)
    return {word for file in files for word in re.findall(r"\bmmsb_\w+", file.read_text(encoding="utf-8"))}


def test_functions_are_found(functions: list[Function], root: Path) -> None:
    text = (root / "include/mmsb.h").read_text(encoding="utf-8")
    assert len(functions) == len(re.findall(r"^MMSB_API\b", text, re.MULTILINE)) > 0


def test_comments_say_errors_threads_blocking_and_since(functions: list[Function]) -> None:
    assert {f.name: missing for f in functions if (missing := missing_sections(f))} == {}


def test_a_comment_without_its_sections_is_caught() -> None:
    (function,) = parse_header("/* Does things. Errors: none. Threads: any. Since 0.1. */\nMMSB_API void mmsb_do(int x);\n")
    assert missing_sections(function) == ["Blocks:"]


@pytest.mark.parametrize("place", PLACES)
def test_every_function_is_named_in(place: str, functions: list[Function], root: Path) -> None:
    assert (root / place).exists()
    named = words_below(root / place)
    assert sorted(f.name for f in functions if f.name not in named) == []


def test_bindings_call_nothing_that_the_header_lacks(functions: list[Function], root: Path) -> None:
    declared = {f.name for f in functions}
    text = (root / "include/mmsb.h").read_text(encoding="utf-8")
    declared |= set(re.findall(r"\bmmsb_\w+", re.sub(r"MMSB_API[^;]*;", "", text)))
    for place in (PYTHON_TABLE, JULIA_TABLE):
        assert sorted(words_below(root / place) - declared) == [], place
