"""One array that processes share, and that survives the death of any of them.

One process at a time writes it, any number read it. The array is a page of a store: each change is in the store's journal when
the call returns, and readers follow the journal, some milliseconds behind. Who writes may be killed at any moment: readers keep
what they have, and go on with the next writer. Who reads may be killed, and nobody notices.

    python shared_array.py write FOLDER [CHANGES]
    python shared_array.py read FOLDER [UNTIL]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import mmsb
import numpy as np

ROWS, COLUMNS = 64, 1000
PAGE = 1  # its id: the number of changes, and the array behind it
ROW_BYTES = COLUMNS * 8


def expected(number: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The array after so many changes: change n fills row n % ROWS with n."""
    rows = np.arange(ROWS)
    last = number - (number - rows) % ROWS
    return np.repeat(np.maximum(last, 0).astype(float)[:, None], COLUMNS, axis=1)


def split(content: bytes) -> tuple[int, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    return int.from_bytes(content[:8], "little"), np.frombuffer(content, float, offset=8).reshape(ROWS, COLUMNS)


def write(folder: Path, changes: int) -> int:
    with mmsb.open(folder, interval_ms=1) as store:
        page = store.get(PAGE) or store.create_page(8 + ROWS * ROW_BYTES, id=PAGE)
        last = int.from_bytes(page.read(0, 8), "little")  # of any writer
        for number in range(last + 1, last + 1 + changes):
            row = np.full(COLUMNS, float(number))
            # One delta is one change: no reader, and no process that comes later, sees half of it.
            page.apply(mmsb.Delta.runs([(0, number.to_bytes(8, "little")), (8 + number % ROWS * ROW_BYTES, row)]))
        return last + changes


def read(folder: Path, until: int) -> int:
    """Checks what it sees until the array has had so many changes. It may begin before the first writer."""
    seen = -1
    while not (folder / "journal.lock").exists():
        time.sleep(0.01)
    with mmsb.open(folder, "follow") as replica:
        while seen < until:
            page = replica.get(PAGE)
            if page is None:
                time.sleep(0.01)
                continue
            number, array = split(page.read())
            if number < seen or not np.array_equal(array, expected(number)):
                raise SystemExit(f"change {number} behind {seen} is not whole")
            if number == seen:
                time.sleep(0.001)
            seen = number
    return seen


def main(arguments: list[str]) -> int:
    what, folder = arguments[0], Path(arguments[1])
    number = int(arguments[2]) if len(arguments) > 2 else sys.maxsize
    print(f"{what}: change {(write if what == 'write' else read)(folder, number)}", flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("write", "read"):
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
