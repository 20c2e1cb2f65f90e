"""What the built library is: its names and its dependencies. test-dist says that a build elsewhere has the same bytes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_soname_link_and_flags(root: Path) -> None:
    library = root / "build/libmmsb.so"
    dynamic = output_of("readelf", "-d", str(library))
    assert "Library soname: [libmmsb.so.0]" in dynamic
    assert "NODELETE" in dynamic
    assert (root / "build/libmmsb.so.0").resolve() == library.resolve()
    assert not (root / "build/libmmsb.h").exists()


def test_only_the_functions_of_the_header_are_exported(root: Path, functions: list) -> None:
    lines = output_of("nm", "-D", "--defined-only", str(root / "build/libmmsb.so")).splitlines()
    names = {line.split()[-1] for line in lines if line.split()[-2] != "A"}
    assert names == {f"{function.name}@@MMSB_0" for function in functions}


def test_debugging_information_is_kept(root: Path) -> None:
    assert ".debug_info" in output_of("readelf", "-S", "--wide", str(root / "build/libmmsb.so"))


def test_the_library_needs_only_libc(root: Path) -> None:
    dynamic = output_of("readelf", "-d", str(root / "build/libmmsb.so"))
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
