"""Pictures that programs write, in a headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Chromium


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write docs/pictures/memory.png anew")


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    browser = Chromium()
    yield browser
    browser.close()
