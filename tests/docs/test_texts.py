"""Comments and docstrings become what they mean."""

from __future__ import annotations

from pathlib import Path

import headers
import julia
import prose
import pytest

NAMES = {"mmsb_page_write": "func", "MMSB_OK": "macro"}


def test_names_become_links_and_nothing_becomes_markup() -> None:
    text = "mmsb_page_write() is MMSB_OK, MMSB_E_*, *address, a_ or `b`: docs/abi.md."
    assert prose.inline(text, NAMES) == (
        r":c:func:`mmsb_page_write`\  is \ :c:macro:`MMSB_OK`\ , MMSB\_E\_\*, \*address, a\_ or \`b\`: "
        r"\ :doc:`docs/abi.md </docs/abi>`\ ."
    )


def test_a_line_that_ends_early_ends_its_paragraph() -> None:
    full = "x " * 57 + "end."
    assert prose.paragraphs([full, "It goes on.", "Another one."], 120) == [f"{full} It goes on.", "Another one."]
    assert prose.paragraphs(["one", "two", "", "three"], 120) == ["one two", "three"]


def test_words_in_a_column_are_defined() -> None:
    text = "Before.\n\n Status     Every function\n            returns one.\n First call It starts."
    assert prose.comment(text, NAMES) == "Before.\n\nStatus\n   Every function returns one.\n\nFirst call\n   It starts."
    assert prose.comment("RULES OF ALL", NAMES) == ".. rubric:: Rules of all"


def test_docstrings_have_code_lists_and_parameters() -> None:
    lines = ["Opens it:", "", "    with it:", "        pass", "", "path: of a `file`.", "- mode: how", "  it is", "", "The end."]
    assert [line for line in prose.docstring(lines, NAMES) if line] == [
        "Opens it:",
        ".. code-block:: python",
        "   with it:",
        "       pass",
        "``path``: of a ``file``.",
        "- ``mode``: how",
        "  it is",
        "The end.",
    ]


def test_a_function_of_c_has_its_rules_as_fields() -> None:
    text = "Ends it. A line\nErrors: none of\nits own. Threads: any. Blocks: no. Since 0.1."
    declaration = "MMSB_API mmsb_status_t mmsb_end(mmsb_page_t page,\n                         int32_t how);"
    assert headers.c_chunk(text, declaration, NAMES) == (
        ".. c:function:: mmsb_status_t mmsb_end(mmsb_page_t page, int32_t how)\n\n   Ends it. A line\n\n"
        "   :Errors: none of its own.\n   :Threads: any.\n   :Blocks: no.\n   :Since: 0.1"
    )
    with pytest.raises(ValueError, match="does not end with errors, threads, blocking and release"):
        headers.c_chunk("Ends it. Threads: any.", declaration, NAMES)


def test_classes_lose_their_bodies_and_what_is_private() -> None:
    text = (
        "class a : public b<c> {\n  public:\n    a(int x) : x_(x) {\n    }\n    /* What. */\n    int x() const {\n"
        "        if (x_) {\n        }\n        return x_;\n    }\n\n  private:\n    int x_;\n};"
    )
    kept = "class a : public b<c> {\n  public:\n    a(int x);\n    /* What. */\n    int x() const;\n};"
    assert headers.without_bodies(text) == kept
    assert headers.without_bodies("inline int f(int x) {\n    return x;\n}") == "inline int f(int x);"


def test_docstrings_of_julia(tmp_path: Path) -> None:
    file = tmp_path / "stores.jl"
    file.write_text(
        '# Stores: folders.\n\n"""\n    open!(a)\n    open!(f, a)\n\nOpens, see [`shut`](@ref).\n"""\nopen!(a) = 1\n\n'
        '"Hidden."\nhidden(a) = 1\n\n"Ends \\"it\\"."\nfunction shut(a)\nend\n\n'
        '"Places."\n@enum Place::Int32 begin\n    HERE = 0\nend\n'
    )
    made = julia.page(file, {"open!", "shut", "Place", "HERE", "gone"})
    assert made is not None
    title, text, done = made
    assert (title, done) == ("Stores", {"open!", "shut", "Place", "HERE"})
    assert "(julia-open-bang)=\n## `open!`\n\n```julia\nopen!(a)\nopen!(f, a)\n```\n\nOpens, see [`shut`](#julia-shut).\n" in text
    assert 'Ends "it".' in text and "Hidden" not in text
    assert "## `Place`, `HERE`\n\n```julia\n@enum Place::Int32 begin\n    HERE = 0\nend\n```" in text
