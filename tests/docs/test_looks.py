"""The site in a browser, opened as files: narrow and wide, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import Chromium

import build

LOADED = "document.readyState === 'complete'"
FOUND = "document.querySelector('.search-summary')?.innerText.match(/\\d/)"

PAGES = [
    "index.html",
    "docs/architecture.html",
    "docs/performance.html",
    "docs/testing.html",
    "reference/c/index.html",
    "reference/c/contexts.html",
    "reference/cpp/pages.html",
    "reference/python/context.html",
    "reference/julia/stores.html",
    "reference/tool.html",
    "files/examples/quickstart.c.html",
    "search.html",
    "genindex.html",
]


@pytest.mark.parametrize("page", PAGES)
def test_nothing_reaches_beyond_the_window(browser: Chromium, page: str) -> None:
    for width in (390, 800, 1400):
        browser.resize(width, 1000)
        browser.open(build.OUT / page, shown=LOADED)
        assert browser.value("document.documentElement.scrollWidth") <= width
        # What is wider than its place can be scrolled to.
        assert (
            browser.value("""[...document.querySelectorAll('article pre, article table')].filter(wide => {
            for (let box = wide; box; box = box.parentElement)
                if (['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) return false;
            return wide.getBoundingClientRect().right > innerWidth;
        }).length""")
            == 0
        )
        assert browser.complaints == []
        assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


def test_pages_are_shown_light_and_dark(browser: Chromium, tmp_path: Path) -> None:
    for page in ("index.html", "reference/c/contexts.html", "reference/python/context.html"):
        shown = []
        for dark in (False, True):
            browser.dark(dark)
            browser.resize(1400, 1000)
            browser.open(build.OUT / page, shown=LOADED)
            browser.screenshot(tmp_path / "page.png")
            shown.append((tmp_path / "page.png").read_bytes())
            red = browser.value("parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
            assert red < 50 if dark else red > 200
            assert browser.value("document.querySelector('article').innerText.length") > 1000
        browser.dark(False)
        # A page without text has 10 kB.
        assert min(map(len, shown)) > 30_000
        assert shown[0] != shown[1]


def test_the_search_works_without_a_server(browser: Chromium) -> None:
    browser.resize(1400, 1000)
    browser.open(
        build.OUT / "search.html", "?q=mmsb_page_write", "document.querySelector('.search-summary')?.innerText.match(/\\d/)"
    )
    assert "mmsb_page_write (C function" in browser.value("document.querySelector('ul.search li').innerText")
    link = browser.value("document.querySelector('ul.search li a').href")
    assert link.endswith("reference/c/bytes-of-pages.html#c.mmsb_page_write")
    assert browser.complaints == []
