"""Processes that share an array are killed, and the others go on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import mmsb
import shared_array


def start(what: str, folder: Path, number: int | None = None) -> subprocess.Popen[str]:
    program = [sys.executable, shared_array.__file__, what, str(folder), *([] if number is None else [str(number)])]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


def changes(folder: Path) -> int:
    try:
        with mmsb.open(folder, "read") as store:
            page = store.get(shared_array.PAGE)
            return 0 if page is None else shared_array.split(page.read())[0]
    except mmsb.NotFoundError:
        return 0


def test_writers_and_readers_are_killed_and_the_others_go_on(tmp_path: Path) -> None:
    folder, before, until = tmp_path / "shared", 0, 3000
    reader = start("read", folder, until)
    for _ in range(3):
        with start("write", folder) as writer, start("read", folder) as other:
            while changes(folder) < before + 1000:
                assert writer.poll() is None and other.poll() is None
                time.sleep(0.01)
            other.kill()
            writer.kill()
        assert changes(folder) >= before  # what a reader has seen may still be in the ring, which the next writer takes over
        before = changes(folder)
    with start("write", folder, until) as writer:
        assert writer.stdout is not None
        last = int(writer.stdout.read().split()[-1])
    assert last >= before + until
    output, _ = reader.communicate(timeout=60)
    assert reader.returncode == 0 and until <= int(output.split()[-1]) <= last
    assert changes(folder) == last
