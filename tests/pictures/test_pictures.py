"""Pages of memory are opened, hovered over and looked at."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from pathlib import Path

import mmsb
import pytest
from chromium import ROOT, Chromium

MIB = 1 << 20
MARKUP = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, mmsb.Block]]:
    """A page of some steps of a training that grew, and blocks that are live at its end, by tag."""
    path = tmp_path_factory.mktemp("pictures") / "training.html"
    chance = random.Random(6)
    with (
        mmsb.Context(simulate="always", simulated_memory=2 << 30) as context,
        context.create_runtime(pool="", log_events=100_000) as runtime,
        runtime.stream() as stream,
        runtime.stream() as side,
    ):
        kept: dict[str, list[mmsb.Block]] = {"weights": [], "optimizer": [], "embeddings": []}
        for _ in range(24):
            kept["weights"].append(stream.allocate(chance.randint(200_000, 9 * MIB), tag="weights"))
            kept["optimizer"].append(stream.allocate(chance.randint(200_000, 9 * MIB), tag="optimizer"))
        kept["embeddings"].append(stream.allocate(48 * MIB, tag="embeddings"))
        for _ in range(150):
            kept.setdefault("small", []).append(stream.allocate(chance.randint(500, 60_000), tag="small"))
        for step in range(12):
            batch = chance.randint(2, 14)
            activations = []
            for _ in range(16):
                activations.append(stream.allocate(batch * chance.randint(50_000, MIB), tag="activations"))
                time.sleep(0.001)
            gradients = [side.allocate(chance.randint(100_000, 5 * MIB), tag="gradients") for _ in range(8)]
            if step == 11:
                kept["gradients"] = gradients[::2]
                kept["activations"] = activations[::3]
            for block in activations[::-1] + gradients:
                if not any(block is other for blocks in kept.values() for other in blocks):
                    block.free()
                    time.sleep(0.0005)
        using = side.use((kept["gradients"][0], "read"))
        with using:
            kept["gradients"][0].free()
            runtime.snapshot(path)
        live = {tag: blocks[-1] for tag, blocks in kept.items()}
        yield path, live


def find(browser: Chromium, address: int) -> dict[str, float]:
    """Where the page shows an address: as a person looks for it."""
    browser.value(
        f"(() => {{ const find = document.getElementById('find'); find.value = '0x{address:x}';"
        "find.dispatchEvent(new Event('change')); })()"
    )
    assert browser.value("document.getElementById('mark').style.display") == "block"
    return browser.value("document.getElementById('mark').getBoundingClientRect().toJSON()")


def test_who_allocated_a_block(browser: Chromium, training: tuple[Path, dict[str, mmsb.Block]]) -> None:
    path, live = training
    browser.open(path)
    for tag, block in live.items():
        place = find(browser, block.address)
        text = browser.hover(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        assert f"address: 0x{block.address:x}\n" in text
        assert "state: live\n" in text
        assert f"tag: {tag}\n" in text
        assert f"({block.bytes:,} B)" in text
        assert f"thread: {threading.get_native_id()}\n" in text
        assert "before the picture" in text
    assert browser.hover(5, 5) == ""
    assert browser.complaints == []
    assert browser.requests == [path.resolve().as_uri()], "it needs no other file"
    tags = browser.value("[...document.querySelectorAll('#tags tr')].map(r => r.cells[0].textContent.trim())")
    assert sorted(tags) == sorted({*live, "gradients"})


def test_names_are_text(browser: Chromium, tmp_path: Path) -> None:
    with mmsb.Context(simulate="always") as context, context.create_runtime(pool="") as runtime, runtime.stream() as stream:
        block = stream.allocate(3 * MIB, tag=MARKUP)
        runtime.snapshot(tmp_path / "memory.html")
        browser.open(tmp_path / "memory.html")
        place = find(browser, block.address)
        assert f"tag: {MARKUP}\n" in browser.hover(place["x"] + 9, place["y"] + 9)
    assert browser.value("document.querySelector('#tags td').textContent.trim()") == MARKUP
    assert browser.value("document.querySelectorAll('img').length") == 0
    assert browser.complaints == []


def test_free_and_waiting_memory(browser: Chromium, training: tuple[Path, dict[str, mmsb.Block]]) -> None:
    browser.open(training[0])
    places = browser.value("""Object.fromEntries(STATES.map((_, state) => {
        const i = blocks.findIndex(b => b[2] === state && b[0] > 4096);
        return [state, i < 0 ? null : address[i]];
    }))""")
    seen = 0
    for state, says in {"0": "state: free\n", "1": "has not come past", "3": "waits for the end of a use"}.items():
        if places[state] is not None:
            place = find(browser, places[state])
            assert says in browser.hover(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
            seen += 1
    assert seen >= 2


def test_time(browser: Chromium, training: tuple[Path, dict[str, mmsb.Block]]) -> None:
    browser.open(training[0])
    chart = browser.box("#time")
    texts = [browser.hover(chart["x"] + chart["width"] * part, chart["y"] + 60) for part in (0.1, 0.5, 0.97)]
    assert len(set(texts)) == 3
    for text in texts:
        assert "live: " in text and "reserved: " in text and "fragmentation: " in text
    peak, points = browser.value("[data.peak, data.timeline]")
    assert peak[1] == max(point[1] for point in points)
    # The mark of the peak is where the peak is, in its colour.
    x = browser.value("timeX(data.peak[0])")
    column = browser.value(
        f"[...document.getElementById('time').getContext('2d').getImageData({x:.0f} * devicePixelRatio - 3, 0, 6, 170).data]"
    )
    reds = sum(1 for i in range(0, len(column), 4) if column[i] > 150 and column[i + 2] < 100 and column[i + 3] > 100)
    assert reds > 20
    assert "fragmentation" in browser.hover(chart["x"] + 500, browser.box("#share")["y"] + 20)


def test_zoom_and_one_tag_alone(browser: Chromium, training: tuple[Path, dict[str, mmsb.Block]]) -> None:
    browser.open(training[0])
    rows = browser.value("rows")
    browser.value("document.getElementById('in').click()")
    assert browser.value("rows") > rows
    browser.value("document.getElementById('out').click()")
    assert browser.value("rows") == rows
    pixels = "document.getElementById('map').toDataURL()"
    before = browser.value(pixels)
    browser.value("document.querySelector('#tags tr').click()")
    assert browser.value(pixels) != before
    browser.value("document.querySelector('#tags tr').click()")
    assert browser.value(pixels) == before


def test_the_picture_of_the_documents(
    browser: Chromium, training: tuple[Path, dict[str, mmsb.Block]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path, live = training
    shots, backgrounds = [], set()
    for dark in (True, False):
        browser.dark(dark)
        browser.open(path)
        browser.tall()
        backgrounds.add(browser.value("getComputedStyle(document.body).backgroundColor"))
        place = find(browser, live["activations"].address)
        browser.hover(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        shots.append(tmp_path / f"memory-{dark}.png")
        browser.screenshot(shots[-1])
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert len(backgrounds) == 2
    kept = ROOT / "docs" / "pictures" / "memory.png"
    if request.config.getoption("--update"):
        kept.write_bytes(shots[1].read_bytes())
    for shot in (*shots, kept):
        assert shot.read_bytes().startswith(b"\x89PNG")
        assert 30_000 < shot.stat().st_size < 300 << 10, shot


def test_100_000_blocks_are_drawn_within_two_seconds(browser: Chromium, tmp_path: Path) -> None:
    with (
        mmsb.Context(simulate="always", simulated_memory=8 << 30) as context,
        context.create_runtime(pool="", log_events=300_000) as runtime,
        runtime.stream() as stream,
    ):
        chance = random.Random(1)
        tags = [f"layer {i}" for i in range(30)]
        blocks = [stream.allocate(chance.randint(1, 20_000), tag=chance.choice(tags)) for _ in range(120_000)]
        for block in blocks[::6]:
            block.free()
        runtime.snapshot(tmp_path / "memory.json")
        # The tool makes the same page of what a program has written.
        report = [ROOT / "build" / "mmsb", "memory", "report", tmp_path / "memory.json", "-o", tmp_path / "memory.html"]
        subprocess.run(report, check=True)
        browser.open(tmp_path / "memory.html")
        assert browser.value("count") >= 100_000
        drawn, shown = (float(browser.value(f"document.documentElement.dataset.{name}")) for name in ("drawMs", "shownMs"))
        print(f"{browser.value('count')} blocks: drawn in {drawn:.0f} ms, shown {shown:.0f} ms after the start of loading")
        assert drawn < 2000 and shown < 2000
        block = blocks[77_777]
        place = find(browser, block.address)
        assert "tag: layer" in browser.hover(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)


@pytest.mark.parametrize("pool", [None, ""])
def test_a_runtime_without_blocks(browser: Chromium, tmp_path: Path, pool: str | None) -> None:
    with mmsb.Context(simulate="always") as context, context.create_runtime(pool=pool) as runtime:
        runtime.snapshot(tmp_path / "memory.html")
    browser.open(tmp_path / "memory.html")
    assert browser.complaints == []
    assert "no history" in browser.value("document.body.textContent")
