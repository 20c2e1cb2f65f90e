#!/usr/bin/env python3
"""patch.py DIFF: applies a unified diff to the files of this folder. What a hunk replaces must be in its file exactly once, at
whatever line; nothing is written where one is not. git and patch would do it, but neither is needed to build the library."""

import re
import sys
from pathlib import Path


def patched(diff: str) -> dict:
    """The files that the diff names, with their new text."""
    files = {}
    for name, hunks in re.findall(r"^\+\+\+ b/(\S+)\n((?:[@ +\\-].*\n)+?)(?=--- |\Z)", diff, re.MULTILINE):
        text = Path(name).read_text(encoding="utf-8")
        for hunk in re.split(r"^@@.*\n", hunks, flags=re.MULTILINE)[1:]:
            lines = hunk.splitlines(keepends=True)
            old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
            if text.count(old) != 1:
                sys.exit(f"{name} has {text.count(old)} times, not once:\n{old}")
            text = text.replace(old, new)
        files[name] = text
    return files


for name, text in patched(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
    Path(name).write_text(text, encoding="utf-8")
