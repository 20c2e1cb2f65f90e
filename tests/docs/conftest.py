"""The documentation as HTML, as `make docs` has made it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Chromium

import build


@pytest.fixture(scope="session")
def pages() -> dict[str, build.Page]:
    """All pages, by their names."""
    found = sorted(build.OUT.rglob("*.html"))
    return {str(path.relative_to(build.OUT)): build.Page(path.read_text(encoding="utf-8")) for path in found}


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    browser = Chromium()
    yield browser
    browser.close()
