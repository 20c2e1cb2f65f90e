#!/usr/bin/env python3
"""half.py FIRST... / SECOND...: prints one of two lists. The commit says which, so that some commits bring both. Where the tree
has no commit, as unpacked from an archive, it prints both."""

import subprocess
import sys
from pathlib import Path


def halves() -> tuple:
    """Which of two halves are for this tree: 0, 1 or both."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return (0, 1)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return (int(found.stdout.strip()[-1], 16) % 2,) if found.returncode == 0 else (0, 1)


if __name__ == "__main__":
    at = sys.argv.index("/")
    lists = (sys.argv[1:at], sys.argv[at + 1 :])
    print(*(word for half in halves() for word in lists[half]))
