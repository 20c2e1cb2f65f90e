#!/usr/bin/env python3
"""share.py LIST... [/ LIST...]...: prints one of the lists, which may be empty. The commit says which, so that some commits bring
all. Where the tree has no commit, as unpacked from an archive, it prints all."""

import subprocess
import sys
from pathlib import Path


def shares(count: int) -> tuple:
    """Which of so many shares, at most 256, are for this tree: one or all."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return tuple(range(count))
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return (int(found.stdout.strip()[-2:], 16) % count,) if found.returncode == 0 else tuple(range(count))


if __name__ == "__main__":
    lists: list = [[]]
    for word in sys.argv[1:]:
        if word == "/":
            lists.append([])
        else:
            lists[-1].append(word)
    print(*(word for share in shares(len(lists)) for word in lists[share]))
