"""Subjects: the mutants of one part of the library, and how they are run. Builds: what subjects with the same tests share."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from mutation import Mutant, Planting, plant

ROOT = Path(__file__).resolve().parents[2]

GO_SWITCH = """package {}

import (
	"os"
	"strconv"
)

var mmsbMutant, _ = strconv.Atoi(os.Getenv("MMSB_MUTANT"))
"""

C_SWITCH = """#include <stdlib.h>
__attribute__((weak)) int mmsb__mutant; /* each folder with mutants has one */
__attribute__((constructor(101))) static void choose(void) {
    const char *number = getenv("MMSB_MUTANT");
    mmsb__mutant = number ? atoi(number) : 0;
}
"""


Plantings = dict[str, list[Planting]]  # by language


def changed(plantings: Plantings) -> dict[Path, str]:
    """The copies, by what they take the place of."""
    texts = {}
    for file, text in plant("Go", plantings.get("Go", [])).items():
        package = re.search(r"^package (\w+)", text, re.MULTILINE)
        assert package
        texts[file] = text
        texts[file.with_name("mutant_switch.go")] = GO_SWITCH.format(package[1])
    for file, text in plant("C", plantings.get("C", [])).items():
        texts[file] = "extern int mmsb__mutant;\n" + text
        folder = ROOT / "native" if file.parent == ROOT / "capi" else file.parent
        texts[folder / "mutant_switch.c"] = C_SWITCH
    return texts


def write_overlay(work: Path, plantings: Plantings) -> Path:
    """The copies, as `go build -overlay` takes them, beside what all builds replace: Go is compiled already."""
    everywhere = ROOT / "build/go-overlay/overlay.json"
    replace = json.loads(everywhere.read_text(encoding="utf-8"))["Replace"] if everywhere.exists() else {}
    for original, text in changed(plantings).items():
        copy = work / original.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
        replace[str(original)] = str(copy)
    overlay = work / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replace}), encoding="utf-8")
    return overlay


@dataclass(frozen=True)
class Go:
    """Tests of a package, built with `-overlay`. A mode is a pattern of -test.run, and flags of the tests. All share one build,
    so that each package is compiled once with its mutants, however many packages' tests rest on it."""

    name: str
    folders: Sequence[str]  # where the functions are
    package: str  # whose tests must catch the mutants
    mutants: Sequence[Mutant]
    mode: str
    sound: Sequence[str]  # modes that must pass without a bug
    tries: int = 1  # how often the tests look, for what is found by chance
    seconds: int = 600  # of one run
    patience: int = 1200  # for how many seconds a bug is looked for, which a run may miss by chance
    environment: dict[str, str] = field(default_factory=dict)
    language = "Go"

    def files(self) -> list[Path]:
        files = (file for folder in self.folders for file in sorted((ROOT / folder).glob("*.go")))
        return [file for file in files if not file.name.endswith("_test.go")]

    @property
    def shares(self) -> str:
        """The build that subjects share, and the name of its folder."""
        return "go"

    def build(self, work: Path, plantings: Plantings, chosen: Sequence[Go]) -> None:
        """One program for the tests of each package; what debuggers read is left out, which links faster."""
        packages = sorted({subject.package for subject in chosen})
        overlay = write_overlay(work, plantings)
        command = ["go", "test", "-c", "-vet=off", "-tags", "netgo,osusergo,invariants", "-ldflags=-s -w", "-overlay", overlay]
        subprocess.run([*command, "-o", f"{work}/", *(f"./{package}" for package in packages)], cwd=ROOT, check=True)

    def command(self, work: Path, mode: str, seed: int, looking: bool) -> tuple[list[str], Path]:
        program = work / f"{Path(self.package).name}.test"
        count = self.tries if looking else 1
        pattern, *flags = mode.split()
        return [str(program), f"-test.run={pattern}", "-test.failfast", f"-test.count={count}", *flags], ROOT / self.package


@dataclass(frozen=True)
class Native(Go):
    """The same with bugs in C code, of native/ unless the folders are others."""

    language = "C"

    def files(self) -> list[Path]:
        return [file for folder in self.folders or ["native"] for file in c_files(folder) if file.suffix == ".c"]


@dataclass(frozen=True)
class Library(Native):
    """The library, one for all of these, with bugs in the C code of native/ and capi/ and without kernels for CUDA, and programs
    that are linked with it. A mode is a program's name and its arguments; `package` has no say."""

    programs: Sequence[Sequence[str]] = ()  # the sources of each; the first one gives it its name

    def files(self) -> list[Path]:
        return [*super().files(), *sorted((ROOT / "capi").glob("*.c"))]

    @property
    def shares(self) -> str:
        return "library"

    def build(self, work: Path, plantings: Plantings, chosen: Sequence[Library]) -> None:
        overlay = write_overlay(work, plantings)
        environment = {**os.environ, "MMSB_CUDA": "off"}
        build = [ROOT / "tools/build_library.sh", work / "libmmsb.so", "-overlay", overlay]
        subprocess.run(build, env=environment, check=True)
        for sources in {sources for subject in chosen for sources in subject.programs}:
            flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-pthread", f"-I{ROOT / 'include'}"]
            link = [f"-L{work}", "-lmmsb", "-ldl", "-lm", f"-Wl,-rpath,{work}"]
            subprocess.run(["gcc", *flags, *sources, "-o", work / Path(sources[0]).stem, *link], cwd=ROOT, check=True)

    def command(self, work: Path, mode: str, seed: int, looking: bool) -> tuple[list[str], Path]:
        program, *arguments = mode.split(" ", 1)
        return [str(work / program), *arguments], ROOT


def c_files(folder: str = "native") -> list[Path]:
    """Those of a folder that call nothing of Go."""
    files = sorted((ROOT / folder).glob("*.[ch]"))
    return [file for file in files if "_cgo_export.h" not in file.read_text(encoding="utf-8")]


@dataclass(frozen=True)
class C:
    """A program of native/tests, built with copies of native/ and without Go. A mode is its first argument, its second a seed."""

    name: str
    program: str
    mutants: Sequence[Mutant]
    mode: str
    sound: Sequence[str]  # modes that must pass without a bug
    seconds: int = 120  # of one run
    patience: int = 1200  # for how many seconds a bug is looked for, each time with another seed
    environment: dict[str, str] = field(default_factory=dict)
    package = ""
    language = "C"

    def files(self) -> list[Path]:
        return c_files()

    @property
    def shares(self) -> str:
        return self.program.removesuffix(".c")

    def build(self, work: Path, plantings: Plantings, chosen: Sequence[C]) -> None:
        changed = plant(self.language, plantings[self.language])
        (work / "native").mkdir()
        for file in self.files():
            text = changed.get(file)
            copy = work / "native" / file.name
            if text is None:
                shutil.copy(file, copy)
            else:
                copy.write_text("extern int mmsb__mutant;\n" + text, encoding="utf-8")
        shutil.copytree(ROOT / "native/tests", work / "native/tests")
        (work / "tests").symlink_to(ROOT / "tests")
        (work / "native/mutant_switch.c").write_text(C_SWITCH, encoding="utf-8")
        sources = sorted((work / "native").glob("*.c"))
        test = work / "native/tests" / self.program
        flags = ["-std=gnu11", "-O0", "-w", "-pthread", "-DMMSB_INVARIANTS", f"-I{ROOT / 'include'}", f"-I{work / 'native'}"]
        subprocess.run(["gcc", *flags, test, *sources, "-o", work / "test", "-ldl", "-lm"], check=True)

    def command(self, work: Path, mode: str, seed: int, looking: bool) -> tuple[list[str], Path]:
        return [str(work / "test"), mode, str(seed)], ROOT


@dataclass(frozen=True)
class Python:
    """Tests of the Python package with a copy of its modules, which need build/libmmsb.so and an environment with pytest. A mode
    is tests that pytest runs."""

    name: str
    modules: Sequence[str]  # where the functions are
    mutants: Sequence[Mutant]
    mode: str
    sound: Sequence[str]  # modes that must pass without a bug
    seconds: int = 300  # of one run
    patience: int = 1200  # for how many seconds a bug is looked for
    environment: dict[str, str] = field(default_factory=dict)
    interpreter: Path = ROOT / "build/venv/bin/python"  # where it is not there, the subject is left out
    folder: Path = ROOT / "bindings/python"  # where the tests run
    package = ""
    language = "Python"
    shares = "python"

    def files(self) -> list[Path]:
        return [ROOT / "bindings/python/src" / module for module in self.modules]

    def build(self, work: Path, plantings: Plantings, chosen: Sequence[Python]) -> None:
        source = ROOT / "bindings/python/src"
        shutil.copytree(source, work / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for file, text in plant(self.language, plantings[self.language]).items():
            (work / "src" / file.relative_to(source)).write_text(text, encoding="utf-8")

    def command(self, work: Path, mode: str, seed: int, looking: bool) -> tuple[list[str], Path]:
        """Asserts are plain: the difference of two large trees takes minutes to print."""
        copy = [f"PYTHONPATH={work / 'src'}", f"MMSB_LIBRARY={ROOT / 'build/libmmsb.so'}", "PYTHONDONTWRITEBYTECODE=1"]
        options = ["-q", "-x", "-p", "no:cacheprovider", "-o", "pythonpath=", "--assert=plain", "--tb=line"]
        return ["env", *copy, str(self.interpreter), "-m", "pytest", *options, *mode.split()], self.folder


Subject = Union[Go, C, Python]
