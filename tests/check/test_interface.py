"""The generated files follow include/mmsb.h, and a change of the header that they do not follow is found."""

from __future__ import annotations

from pathlib import Path

import c_header
import generate_interface
import pytest
from generate_interface import HEADER, NOT_CONSTANTS

PYTHON = "bindings/python/src/mmsb/_abi.py"
JULIA = "bindings/julia/src/abi.jl"
SYMBOLS = "abi/libmmsb.symbols"
GO = "core/abi/abi.go"
GO_CODES = "core/status/codes.go"
C = "tests/c/interface.h"
LAYOUTS = {"abi/libmmsb.layout", C}
BINDINGS = {PYTHON, JULIA}
EVERY = BINDINGS | LAYOUTS | {GO, GO_CODES, SYMBOLS}


def changed(old: str, new: str, folder: Path) -> c_header.Header:
    """The header with a part of it replaced."""
    text = HEADER.read_text(encoding="utf-8")
    assert old in text
    copy = folder / "mmsb.h"
    copy.write_text(text.replace(old, new), encoding="utf-8")
    return c_header.read(copy, NOT_CONSTANTS)


def test_the_generated_files_follow_the_header() -> None:
    generated = generate_interface.files(c_header.read(HEADER, NOT_CONSTANTS))
    assert set(generated) == EVERY
    assert generate_interface.stale(generated) == [], "run `make generate`"
    assert [name for name, text in generated.items() if "make generate" not in text.splitlines()[0]] == []


@pytest.mark.parametrize(
    ("old", "new", "files"),
    [
        # Functions: an argument's type and name, the result, one more argument, another name.
        ("page_resize(mmsb_page_t page, uint64_t size)", "page_resize(mmsb_page_t page, uint32_t size)", BINDINGS),
        ("page_resize(mmsb_page_t page, uint64_t size)", "page_resize(mmsb_page_t page, uint64_t bytes)", {JULIA}),
        ("MMSB_API uint64_t mmsb_page_size(", "MMSB_API int32_t mmsb_page_size(", BINDINGS),
        ("mmsb_status_t mmsb_shutdown(void)", "mmsb_status_t mmsb_shutdown(int32_t how)", BINDINGS),
        ("mmsb_page_epoch(mmsb", "mmsb_page_epoch2(mmsb", BINDINGS | {SYMBOLS}),
        # Structs: the order of fields, a length, a field less, the type of a function pointer.
        ("read_pins;\n    uint32_t write_pins;", "write_pins;\n    uint32_t read_pins;", LAYOUTS | BINDINGS),
        ("char name[32]", "char name[64]", LAYOUTS | BINDINGS),
        ("    uint64_t uniform_length;\n", "", LAYOUTS | BINDINGS),
        ("(*refused)(void *user, uint64_t bytes", "(*refused)(void *user, uint32_t bytes", {PYTHON}),
        # Constants: of a struct, a code, a kind, an enum, a domain, the release.
        ("#define MMSB_STRUCT_RUN 11", "#define MMSB_STRUCT_RUN 99", BINDINGS),
        ("#define MMSB_E_BUSY 22", "#define MMSB_E_BUSY 19", BINDINGS | {GO_CODES}),
        ("#define MMSB_E_PEER 60", "#define MMSB_E_PEER 60\n#define MMSB_E_PIER 61", BINDINGS | {GO_CODES, C}),
        ("#define MMSB_KIND_USE 9", "#define MMSB_KIND_USE 10", BINDINGS | {GO}),
        ("#define MMSB_LOG_DEBUG 4", "#define MMSB_LOG_DEBUG 5", BINDINGS | {GO}),
        ("#define MMSB_DOMAIN_NIXL 4", "#define MMSB_DOMAIN_NIXL 5", BINDINGS | {GO_CODES}),
        ("#define MMSB_WAIT_FOREVER UINT64_MAX", "#define MMSB_WAIT_FOREVER INT64_MAX", BINDINGS | {GO}),
        ('#define MMSB_VERSION_STRING "0.1.0"', '#define MMSB_VERSION_STRING "0.2.0"', BINDINGS),
        ("#define MMSB_ABI_VERSION 0", "#define MMSB_ABI_VERSION 1", BINDINGS | {SYMBOLS}),
        # The release that brought a function.
        ("The string is static. Errors: none. Threads: any. Blocks: no. Since 0.1.", "Errors: none. Since 0.2.", {SYMBOLS}),
    ],
)  # fmt: skip
def test_a_change_of_the_header_is_found(old: str, new: str, files: set[str], tmp_path: Path) -> None:
    generated = generate_interface.files(changed(old, new, tmp_path))
    assert set(generate_interface.stale(generated)) == files


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("#define MMSB_PIN_WRITE 2", "#define MMSB_PEG_WRITE 2", "MMSB_PEG_WRITE is in none of the SETS"),
        ("#define MMSB_STRUCT_RUN 11\n", "", "MMSB_STRUCT_RUN"),
        (
            "The string is static. Errors: none. Threads: any. Blocks: no. Since 0.1. */",
            "*/",
            "the comment of mmsb_version does not end",
        ),
        ("int32_t level, int32_t descriptor)", "int32_t level, long descriptor)", "long is neither"),
        ("    uint64_t uniform_length;\n", "    void *lengths_of[2];\n", "array of something other"),
        (
            "typedef int32_t mmsb_status_t;",
            "typedef int32_t mmsb_status_t; enum mmsb_mood { MMSB_SHY };",
            "not read here: mmsb_mood",
        ),
        ("MMSB_API size_t mmsb_sizeof(int32_t structure);", "MMSB_API size_t mmsb_sizeof(int32_t structure;", "expected"),
    ],
)
def test_a_header_that_cannot_be_followed_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(c_header.HeaderError, match=message):
        generate_interface.files(changed(old, new, tmp_path))


def test_stale_files_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = HEADER.read_text(encoding="utf-8")
    copy = tmp_path / "mmsb.h"
    copy.write_text(text.replace("#define MMSB_KIND_USE 9", "#define MMSB_KIND_USE 10"), encoding="utf-8")
    monkeypatch.setattr(generate_interface, "HEADER", copy)
    monkeypatch.setattr("sys.argv", ["generate_interface.py", "--check"])
    assert generate_interface.main() == 1
    assert "core/abi/abi.go is not what include/mmsb.h says: run `make generate`" in capsys.readouterr().out
    monkeypatch.setattr(generate_interface, "HEADER", HEADER)
    assert generate_interface.main() == 0
    assert capsys.readouterr().out == ""
