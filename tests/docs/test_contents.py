"""Everything public has its entry, everything can be reached, and nothing comes from elsewhere."""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path

import c_header
import pytest

import build

Pages = dict[str, build.Page]


def ids(pages: Pages, folder: str) -> set[str]:
    return set().union(*(page.ids for name, page in pages.items() if name.startswith(folder)))


def test_each_name_of_the_c_header(pages: Pages) -> None:
    header = build.ROOT / "include/mmsb.h"
    declared = {name for name in c_header.declared_names(header) if name.startswith(("mmsb_", "MMSB_"))}
    # The name behind "struct" is its type's without _t, and MMSB_API is no name of a program.
    tags = {name for name in declared if f"{name}_t" in declared and f"struct {name} " in header.read_text(encoding="utf-8")}
    functions = {f.name for f in c_header.read(header, {"MMSB_H", "MMSB_API"}).functions}
    names = (declared - tags | functions) - {"MMSB_API"}
    assert len(functions) > 250 and len(names) > len(functions) + 200
    assert {name for name in names if f"c.{name}" not in ids(pages, "reference/c/")} == {"MMSB_H"}


def test_each_function_of_c_says_its_rules() -> None:
    for path in (build.SOURCE / "reference/c").glob("*.rst"):
        text = path.read_text(encoding="utf-8")
        for rule in ("Errors", "Threads", "Blocks", "Since"):
            assert text.count(f"\n   :{rule}: ") == text.count(".. c:function:: "), path


def test_each_class_of_cpp(pages: Pages) -> None:
    header = (build.ROOT / "include/mmsb.hpp").read_text(encoding="utf-8")
    classes = set(re.findall(r"^(?:template <class \w+> )?class (?:\[\[nodiscard\]\] )?(\w+)", header, re.MULTILINE))
    assert {"context", "store", "page", "span", "expected"} < classes
    shown = set().union(*(re.findall(r"\d*mmsb\d+([a-z_]+?)E$", name) for name in ids(pages, "reference/cpp/")))
    assert classes - shown == set()


@pytest.mark.parametrize("module", ["mmsb", "mmsb.state", "mmsb.state.dcp"])
def test_each_name_of_python(pages: Pages, module: str) -> None:
    path = build.ROOT / "bindings/python/src" / module.replace(".", "/")
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    listed = re.search(r"^__all__ = \[(.*?)\]", source, re.MULTILINE | re.DOTALL)
    assert listed is not None
    names = re.findall(r'"(\w+)"', listed[1])
    assert names
    assert {name for name in names if f"{module}.{name}" not in ids(pages, "reference/python/")} == set()


def signature_of(name: str, page: str) -> str:
    text = (build.OUT / page).read_text(encoding="utf-8")
    found = re.search(rf'<dt [^>]*id="{re.escape(name)}">(.*?)</dt>', text, re.DOTALL)
    assert found is not None
    return re.sub(r"<[^>]+>", "", found[1])


def test_a_method_and_an_option_of_python(pages: Pages) -> None:
    assert {"mmsb.Page.write", "mmsb.Context.save", "mmsb.StoreInfo.saves"} <= ids(pages, "reference/python/")
    context = (build.OUT / "reference/python/context.html").read_text(encoding="utf-8")
    assert "Alias for field" not in context
    assert "guard_every" in context
    # The stand-in for PyTorch does not hide how a class is constructed.
    assert "args" not in signature_of("mmsb.state.dcp.Writer", "reference/python/state.dcp.html")
    assert "path" in signature_of("mmsb.state.dcp.Writer", "reference/python/state.dcp.html")
    assert "(" not in signature_of("mmsb.Page", "reference/python/page.html")


def test_each_export_of_julia(pages: Pages) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (build.ROOT / "bindings/julia/src").glob("*.jl")]
    exports = [name for text in sources for line in re.findall(r"^export (.+)", text, re.MULTILINE) for name in line.split(",")]
    names = {name.strip() for name in exports} | {"GuardError", "MMSBError"}
    assert len(names) > 150
    headings = set()
    for path in (build.SOURCE / "reference/julia").glob("*.md"):
        for line in re.findall(r"^## (.+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            headings.update(re.findall(r"`([^`]+)`", line))
    assert names - headings == set()
    assert "julia-open-store" in pages["reference/julia/stores.html"].ids


def test_each_command_of_the_tool(pages: Pages) -> None:
    readme = (build.ROOT / "README.md").read_text(encoding="utf-8")
    commands = {f"mmsb-{a}-{b}" for a, b in re.findall(r"^\| `mmsb (\w+) (\w+)", readme, re.MULTILINE)}
    assert len(commands) > 12
    assert commands - pages["reference/tool.html"].ids == set()


def test_each_text_of_the_tree_is_a_page(pages: Pages) -> None:
    texts = {str(path.relative_to(build.ROOT).with_suffix(".html")) for path in build.texts()} - {"README.html"}
    assert {"docs/architecture.html", "docs/torch-results/README.html"} < texts
    assert texts - set(pages) == set()


def test_every_page_can_be_reached(pages: Pages) -> None:
    reached, new = {"index.html"}, ["index.html"]
    while new:
        name = new.pop()
        for link in pages[name].links:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link.split("#")[0]))
            if target in pages and target not in reached:
                reached.add(target)
                new.append(target)
    assert set(pages) - reached <= {"search.html", "py-modindex.html"}


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(pages: Pages) -> None:
    assert len(pages) > 100
    assert build.faults(build.OUT) == []


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ('<a href="gone.html">x</a>', "gone.html is no file of the site"),
        ('<a href="#gone">x</a>', "#gone is no place of that page"),
        ('<a href="other.html#gone">x</a>', "other.html#gone is no place of that page"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //example.org/x.css"),
        ('<img src="gone.png">', "gone.png is no file of the site"),
    ],
)
def test_planted_faults_of_pages_are_found(tmp_path: Path, planted: str, fault: str) -> None:
    page = '<p id="here"></p><a href="#here">x</a><a href="other.html">x</a><a href="https://example.org">x</a>'
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "other.html").write_text("<p></p>")
    assert build.faults(tmp_path) == []
    (tmp_path / "index.html").write_text(page + planted)
    assert build.faults(tmp_path) == [f"index.html: {fault}"]


def test_the_search_finds_a_function() -> None:
    text = (build.OUT / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    document, kind = next(found[:2] for found in index["objects"][""] if found[4] == "mmsb_page_write")
    assert index["docnames"][document] == "reference/c/bytes-of-pages"
    assert index["objnames"][str(kind)][1:] == ["function", "C function"]
    assert "c.functionParam" not in {":".join(names[:2]) for names in index["objnames"].values()}


# ------------------------------------------------------------------------------------------------------- builds ----

GOOD = "# Start\n\nSee [two](two.md) and [its end](two.md#the-end).\n\n```{toctree}\ntwo\n```\n"


def rendered(folder: Path, start: str) -> bool:
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "index.md").write_text(start)
    (source / "two.md").write_text("# Two\n\n## The end\n\nIt is.\n")
    return build.render(source, folder / "state", folder / "out")


@pytest.mark.parametrize(
    ("planted", "warning"),
    [
        ("[gone](gone.md)", "gone.md"),
        ("[gone](two.md#gone)", "gone"),
        ("[gone](#gone)", "gone"),
        ("![gone](gone.png)", "gone.png"),
        ("```{toctree}\ngone\n```", "gone"),
    ],
)
def test_a_planted_broken_link_fails_the_build(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], planted: str, warning: str
) -> None:
    assert rendered(tmp_path, GOOD), capfd.readouterr().err
    assert not rendered(tmp_path, GOOD + "\n" + planted + "\n")
    first = capfd.readouterr().err
    assert "WARNING" in first and warning in first
    # It stays an error for a build that has nothing new to read.
    assert not rendered(tmp_path, GOOD + "\n" + planted + "\n")
    assert "WARNING" in capfd.readouterr().err


def test_a_page_without_a_place_in_the_menu_fails_the_build(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert not rendered(tmp_path, "# Start\n")
    assert "two.md: WARNING: document isn't included in any toctree" in capfd.readouterr().err


def test_a_second_build_writes_no_page() -> None:
    times = {path: os.stat(path).st_mtime_ns for path in build.OUT.rglob("*.html")}
    subprocess.run([sys.executable, build.ROOT / "docs/site/build.py"], check=True, stdout=subprocess.DEVNULL)
    of_all = {"genindex.html", "py-modindex.html", "search.html"}
    written = {path.name for path, time in times.items() if os.stat(path).st_mtime_ns != time}
    assert written <= of_all
