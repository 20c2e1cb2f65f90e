"""What people use today for a state of 2 GiB: numpy.save, safetensors, SQLite with a blob a page; ours beside them."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
from numpy.typing import NDArray

QUICK = os.environ.get("BENCH_QUICK", "0") not in ("", "0")
FILTER = os.environ.get("BENCH_FILTER", "")
FOLDER = Path(os.environ["BENCH_FILES"])
ROUNDS = 2 if QUICK else 5
BYTES = (2 << 30) // (64 if QUICK else 1)
NOTE = "2 GiB in pages, for the peers rows of one array; each file on disk before the clock stops; megabytes of state"

Array = NDArray[np.uint8]


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def forget(path: Path) -> None:
    """The file leaves the page cache, so that reading it means the disk for everybody."""
    sync(path)
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


class Peer:
    def __init__(self, name: str, save: Callable[[Path, Array], None], load: Callable[[Path], Array]) -> None:
        self.name, self.save, self.load = name, save, load


def numpy_save(path: Path, rows: Array) -> None:
    with path.open("wb") as file:
        np.save(file, rows)
        file.flush()
        os.fsync(file.fileno())


def sqlite_save(path: Path, rows: Array) -> None:
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA synchronous = FULL")
    base.execute("CREATE TABLE page (id INTEGER PRIMARY KEY, bytes BLOB)")
    base.execute("BEGIN")
    base.executemany("INSERT INTO page VALUES (?, ?)", ((number, row.data) for number, row in enumerate(rows)))
    base.execute("COMMIT")
    base.close()


def sqlite_load(path: Path) -> Array:
    base = sqlite3.connect(path)
    count, length = base.execute("SELECT count(*), (SELECT length(bytes) FROM page LIMIT 1) FROM page").fetchone()
    rows = np.empty((count, length), dtype=np.uint8)
    for number, row in base.execute("SELECT id, bytes FROM page"):
        rows[number] = np.frombuffer(row, dtype=np.uint8)
    base.close()
    return rows


def peers() -> list[Peer]:
    found = [Peer("numpy.save and fsync; numpy.load", numpy_save, lambda path: np.load(path))]
    try:
        from safetensors.numpy import load_file, save_file
    except ImportError as error:
        print(f"bench: no safetensors: {error}", file=sys.stderr)
    else:

        def safetensors_save(path: Path, rows: Array) -> None:
            save_file({"rows": rows}, path)
            sync(path)

        found.append(Peer("safetensors and fsync", safetensors_save, lambda path: load_file(path)["rows"]))
    return [*found, Peer("SQLite, a blob a page, one transaction", sqlite_save, sqlite_load)]


def report(what: str, peer: str, ours: list[float], theirs: list[float]) -> None:
    record: dict[str, Any] = {"kind": "row", "what": what, "unit": "MB/s", "peer_name": peer, "note": NOTE}
    record |= {"ours": statistics.median(ours), "peer": statistics.median(theirs)}
    record["ratio"] = statistics.median(a / b for a, b in zip(ours, theirs))
    print(json.dumps(record | {"verdict": "information"}), flush=True)


def measure(size: int, names: tuple[str, str]) -> None:
    if not any(FILTER in name for name in names):
        return
    rows = np.random.default_rng(size).integers(0, 256, (BYTES // size, size), dtype=np.uint8)
    ours_path, path = FOLDER / "ours", FOLDER / "peer"
    speed = BYTES / 1e6
    with mmsb.Context() as context:
        pages = context.create_pages(len(rows), size)
        for page, row in zip(pages, rows):
            page.write(0, row)
        for peer in peers():
            saved: tuple[list[float], list[float]] = ([], [])
            loaded: tuple[list[float], list[float]] = ([], [])
            for turn in range(ROUNDS):
                for ours in (True, False) if turn % 2 == 0 else (False, True):
                    if ours:
                        saved[0].append(speed / seconds(lambda: context.save(ours_path))[0])
                        forget(ours_path)
                        time_taken, restored = seconds(lambda: mmsb.Context.load(ours_path))
                        loaded[0].append(speed / time_taken)
                        with restored:
                            for number in range(0, len(rows), len(rows) // 64):
                                page = restored.get(pages[number].id)
                                if page is None or page.read() != rows[number].tobytes():
                                    raise SystemExit("bench: a loaded context is not what was saved")
                        ours_path.unlink()
                    else:
                        saved[1].append(speed / seconds(partial(peer.save, path, rows))[0])
                        forget(path)
                        time_taken, again = seconds(partial(peer.load, path))
                        loaded[1].append(speed / time_taken)
                        if not np.array_equal(again[:: len(rows) // 64], rows[:: len(rows) // 64]):
                            raise SystemExit(f"bench: {peer.name}: what was loaded is not what was saved")
                        path.unlink()
            report(names[0], peer.name, *saved)
            report(names[1], peer.name, *loaded)


def main() -> None:
    for size, text in ((64 << 10, "64 KiB"), (4 << 10, "4 KiB")):
        measure(size, (f"python: save, pages of {text}", f"python: load, pages of {text}"))


if __name__ == "__main__":
    main()
