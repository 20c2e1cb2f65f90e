"""What the house rules are checked against: the tree's files and the functions of the header."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import c_header  # noqa: E402
import generate_interface  # noqa: E402


def tree_files() -> list[Path]:
    """Files that git tracks or would add, without what was deleted; in an unpacked archive all that is not made."""
    listing = subprocess.run(
        [ROOT / "tools/tree_files.sh", "--cached", "--others", "--exclude-standard"],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    paths = (ROOT / name for name in listing.split("\0") if name)
    return sorted(path for path in paths if path.is_file())


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def files() -> list[Path]:
    return tree_files()


@pytest.fixture(scope="session")
def functions() -> tuple[c_header.Function, ...]:
    return c_header.read(generate_interface.HEADER, generate_interface.NOT_CONSTANTS).functions
