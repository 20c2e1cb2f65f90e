"""Tells whether a file is another one with text deleted and nothing added: only_deletes.py OLD NEW."""

from __future__ import annotations

import sys
from pathlib import Path


def is_subsequence(text: str, of: str) -> bool:
    """Whether deleting characters from `of` gives `text`."""
    rest = iter(of)
    return all(character in rest for character in text)


def first_added_line(old: list[str], new: list[str]) -> int | None:
    """Index of the first new line that no old line gives by deletion, the order of lines kept; None where there is none."""
    position = 0
    for index, line in enumerate(new):
        while position < len(old) and not is_subsequence(line, old[position]):
            position += 1
        if position == len(old):
            return index
        position += 1
    return None


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    old, new = (Path(name).read_text(encoding="utf-8").splitlines() for name in sys.argv[1:])
    added = first_added_line(old, new)
    if added is not None:
        print(f"{sys.argv[2]}:{added + 1}: not {sys.argv[1]} with something deleted: {new[added]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
