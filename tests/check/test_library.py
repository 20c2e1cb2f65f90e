"""What the built library is: its names, its dependencies, and that a second build elsewhere gives the same bytes."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
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


def compiled_anew(file: Path, root: Path) -> bool:
    """Whether a comment at the end makes Go compile the file's package anew, to the same code: Go's cache knows a source by its
    bytes. Not a file with `import "C"`: cgo makes names from its bytes. Not the kernels: their bytes are in a flag, and they are
    compiled without the cache."""
    if file.is_relative_to(root / "kernels"):
        return False
    return file.suffix == ".c" or (file.suffix == ".go" and 'import "C"' not in file.read_text(encoding="utf-8"))


def test_a_second_build_in_another_folder_gives_the_same_bytes(root: Path, files: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    for file in files:
        target = copy / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
        if compiled_anew(file, root):
            with target.open("a", encoding="utf-8") as source:
                source.write("// elsewhere\n")
    # What takes long to fetch or to compile and is not the library's own is shared; the kernels are made anew.
    environment = os.environ | {"CUDA_HOME": str(root / "build/cuda/toolkit")}
    caches = [f"GOCACHE={root / 'build/cache/go'}", f"GOMODCACHE={root / 'build/cache/go-modules'}"]
    subprocess.run(["make", "lib", *caches], cwd=copy, env=environment, check=True)
    assert filecmp.cmp(root / "build/libmmsb.so", copy / "build/libmmsb.so", shallow=False)
