"""Every function of mmsb.h is documented whole and tested from C, and no name of another header looks like one of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import c_header
from c_header import Function

# What the comment of a function must say, each with what it looks like.
SECTIONS = {
    "Errors:": r"Errors: \S",
    "Threads:": r"Threads: \S",
    "Blocks:": r"Blocks: \S",
    "Since": r"Since \d+\.\d+\. \*/$",
}

# With what the names begin that the library's own headers declare; include guards may begin with MMSB_.
HIDDEN = r"mmsb__\w+|MMSB__\w+|mmsbgo_\w+|mmsb_test_\w+"
GUARD = r"MMSB_[A-Z_]+_H"

# What else a header declares, and why it may.
ALSO = {
    "capi/door.h": r"door_\w+|DOOR_\w+",  # what each public function begins with: of capi alone, under the file's name
    "gpu/cuda/abi.h": r"cu\w+|CU\w+|ASSERT_LAYOUT|ASSERT_SIZE|DECLARE_CONSTANT",  # CUDA's names, where its headers are not
    "gpu/cuda/table.h": r"DECLARE_FUNCTION",
    "gpu/nvml/table.h": r"DEVICE|FIELD",
    # Included by the one file that compiles it.
    "kernels/bodies.h": r"BODY|EACH_BYTE|HIGH_BITS|KEEP|LANES|LOW_SEVEN|OWN_ENTRIES|OWN_ENTRY|ROWS|ROW_BYTES|TABLE|UNROLLED"
    r"|UNMARKED|WITH_ONE_LANE|X_32|X_4096|factor|factor_t|lane|lane_t|vector|vector_t",
    "kernels/kernels.h": r"MMSB_KERNELS",
    "native/bytes_words.h": r"EVERY_BYTE|HIGH_BITS|LOW_SEVEN|DEFINE_SCATTER|SCATTER_\w+",  # included by the byte loops
}


def missing_sections(comment: str) -> list[str]:
    text = re.sub(r"\n \* ?", " ", comment.strip())
    return [section for section, pattern in SECTIONS.items() if not re.search(pattern, text)]


def test_functions_are_found(functions: Iterable[Function], root: Path) -> None:
    text = (root / "include/mmsb.h").read_text(encoding="utf-8")
    names = [function.name for function in functions]
    assert len(names) == len(re.findall(r"^MMSB_API\b", text, re.MULTILINE)) > 0
    assert [name for name in names if not name.startswith("mmsb_") or name.startswith("mmsb__")] == []


def test_comments_say_errors_threads_blocking_and_since(functions: Iterable[Function]) -> None:
    assert {f.name: missing for f in functions if (missing := missing_sections(f.comment))} == {}


def test_a_comment_without_its_sections_is_caught() -> None:
    assert missing_sections("/* Does things. Errors: none. Threads: any. Since 0.1. */") == ["Blocks:"]


def test_every_function_is_named_in_a_c_test(functions: Iterable[Function], files: list[Path], root: Path) -> None:
    tests = [file for file in files if file.is_relative_to(root / "tests/c") and file.suffix in {".c", ".h", ".cpp"}]
    tests.remove(root / "tests/c/interface.h")  # generated: it names them all
    named = {word for file in tests for word in re.findall(r"\bmmsb_\w+", file.read_text(encoding="utf-8"))}
    assert sorted(f.name for f in functions if f.name not in named) == []


def open_names(header: Path, root: Path, text: str | None = None) -> list[str]:
    """The names that a header of the library's own declares without a prefix that hides them."""
    name = str(header.relative_to(root))
    options = [f"-I{root / room}" for room in ("include", "native", "kernels")] + ["-D_GNU_SOURCE"]
    allowed = re.compile("|".join([HIDDEN, GUARD, ALSO.get(name, r"(?!)")]))
    return sorted(word for word in c_header.declared_names(header, options, text) if not allowed.fullmatch(word))


def test_names_of_hidden_headers_are_hidden(files: list[Path], root: Path) -> None:
    rooms = {"native", "capi", "gpu", "kernels"}
    headers = [
        file for file in files if file.suffix == ".h" and file.relative_to(root).parts[0] in rooms and "tests" not in file.parts
    ]
    assert len(headers) > 10
    assert {str(header.relative_to(root)): names for header in headers if (names := open_names(header, root))} == {}
    assert set(ALSO) <= {str(header.relative_to(root)) for header in headers}


def test_a_name_that_is_not_hidden_is_caught(root: Path) -> None:
    header = root / "native/gate.h"
    planted = {
        "int mmsb_page_secret(void);": ["mmsb_page_secret"],
        "extern int gate_count;": ["gate_count"],
        "#define MMSB_SECRET 1": ["MMSB_SECRET"],
        "typedef struct secret { int x; } mmsb__secret_t;": ["secret"],
        "enum { SECRET_ONE, MMSB__SECRET_TWO };": ["SECRET_ONE"],
        "static inline int helper(void) { return 0; } int mmsb__secret(int);": [],
    }
    for text, names in planted.items():
        assert open_names(header, root, text + "\n") == names
