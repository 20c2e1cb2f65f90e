"""What the house rules are checked against: the tree's files and the functions of the header."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Function:
    name: str
    comment: str


def tree_files() -> list[Path]:
    """Files that git tracks or would add, without what was deleted."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    paths = (ROOT / name for name in listing.split("\0") if name)
    return sorted(path for path in paths if path.is_file())


def parse_header(text: str) -> list[Function]:
    """Each exported function with the comment that stands directly above it."""
    pattern = re.compile(r"((?:/\*(?:(?!\*/).)*\*/\n)?)MMSB_API [^;(]*?\b(mmsb_\w+)\(", re.DOTALL)
    return [Function(name, comment) for comment, name in pattern.findall(text)]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def files() -> list[Path]:
    return tree_files()


@pytest.fixture(scope="session")
def functions() -> list[Function]:
    return parse_header((ROOT / "include/mmsb.h").read_text(encoding="utf-8"))
