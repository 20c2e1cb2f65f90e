"""A git repository with a generated history, equal for equal seeds: every kind of change that git can record of a file.

Written with `git fast-import`. The kinds: files added, edited, grown from nothing, emptied and deleted; renames, with and without
an edit; binary files; names that are not UTF-8; executable bits; symbolic links, and files that become links and the other way
round; a file that a folder replaces; submodules; commits that change nothing; merges.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

REGULAR = b"100644"
EXECUTABLE = b"100755"
SYMLINK = b"120000"
SUBMODULE = b"160000"

FIRST_TIMESTAMP = 1_700_000_000
SOME_FOREIGN_COMMIT = b"17" * 20


class GenerationError(Exception):
    """git could not write the repository."""


class _Tree:
    """The files of the newest commit, and the fast-import commands of the commit that is being written."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files: dict[bytes, tuple[bytes, bytes]] = {}
        self.commands: list[bytes] = []
        self.names = 0

    def put(self, path: bytes, mode: bytes, content: bytes) -> None:
        self.files[path] = (mode, content)
        if mode == SUBMODULE:
            self.commands.append(b"M %s %s %s\n" % (mode, content, _quoted(path)))
        else:
            self.commands.append(b"M %s inline %s\ndata %d\n%s\n" % (mode, _quoted(path), len(content), content))

    def remove(self, path: bytes) -> None:
        del self.files[path]
        self.commands.append(b"D %s\n" % _quoted(path))

    def pick(self, wanted: Callable[[bytes, bytes], bool] = lambda mode, content: mode in (REGULAR, EXECUTABLE)) -> bytes | None:
        paths = sorted(path for path, (mode, content) in self.files.items() if wanted(mode, content))
        return self.random.choice(paths) if paths else None

    def new_path(self) -> bytes:
        self.names += 1
        folder = self.random.choice([b"", b"src/", b"src/deep/er/", b"with space/", b"caf\xe9/", "日本/".encode()])
        suffix = self.random.choice([b".txt", b".bin", b"\xff\xfe.raw", b'"quoted".txt', b"\ttab", b"\nnewline"])
        return folder + b"file%d" % self.names + suffix

    def text(self, lines: int) -> bytes:
        return b"".join(b"line %d says %x\n" % (i, self.random.getrandbits(48)) for i in range(lines))

    # Each of these is one kind of change. A change that finds no file to work on adds one.

    def add_text(self) -> None:
        self.put(self.new_path(), REGULAR, self.text(self.random.randint(1, 120)))

    def add_binary(self) -> None:
        self.put(self.new_path(), REGULAR, self.random.randbytes(self.random.randint(1, 30_000)))

    def add_empty(self) -> None:
        self.put(self.new_path(), REGULAR, b"")

    def add_link(self) -> None:
        self.put(self.new_path(), SYMLINK, self.new_path())

    def add_submodule(self) -> None:
        self.put(self.new_path(), SUBMODULE, SOME_FOREIGN_COMMIT)

    def edit(self) -> None:
        path = self.pick(lambda mode, content: mode in (REGULAR, EXECUTABLE) and content != b"")
        if path is None:
            return self.add_text()
        mode, content = self.files[path]
        start = self.random.randrange(len(content))
        length = self.random.randint(1, 40)
        changed = self.random.choice(
            [
                content[:start] + self.random.randbytes(length) + content[start + length :],  # overwrite
                content[:start] + self.text(1) + content[start:],  # insert
                content[:start] + content[start + length :] or b"x",  # cut
                content + self.text(2),  # append
                content + bytes(100),  # append zeros
            ]
        )
        self.put(path, mode, changed)

    def grow_from_nothing(self) -> None:
        path = self.pick(lambda mode, content: mode == REGULAR and content == b"")
        if path is None:
            return self.add_empty()
        self.put(path, REGULAR, self.text(3))

    def make_empty(self) -> None:
        path = self.pick(lambda mode, content: mode in (REGULAR, EXECUTABLE) and content != b"")
        if path is None:
            return self.add_text()
        self.put(path, self.files[path][0], b"")

    def rename(self) -> None:
        path = self.pick(lambda mode, content: mode in (REGULAR, EXECUTABLE) and len(content) > 200)
        if path is None:
            return self.add_text()
        mode, content = self.files[path]
        if self.random.random() < 0.5:
            content = content[:100] + b"!" + content[101:]
        self.remove(path)
        self.put(self.new_path(), mode, content)

    def delete(self) -> None:
        path = self.pick(lambda mode, content: True)
        if path is None:
            return self.add_text()
        self.remove(path)

    def change_mode(self) -> None:
        path = self.pick()
        if path is None:
            return self.add_text()
        mode, content = self.files[path]
        self.put(path, EXECUTABLE if mode == REGULAR else REGULAR, content)

    def change_type(self) -> None:
        path = self.pick(lambda mode, content: mode in (REGULAR, SYMLINK, SUBMODULE))
        if path is None:
            return self.add_text()
        if self.files[path][0] == REGULAR:
            mode, content = self.random.choice([(SYMLINK, b"somewhere/else"), (SUBMODULE, SOME_FOREIGN_COMMIT)])
            self.put(path, mode, content)
        else:
            self.put(path, REGULAR, self.text(5))

    def give_way_to_folder(self) -> None:
        path = self.pick()
        if path is None:
            return self.add_text()
        self.remove(path)
        self.put(path + b"/inside.txt", REGULAR, self.text(2))

    def nothing(self) -> None:
        """A commit may change nothing."""

    def change(self) -> None:
        kinds = {
            self.add_text: 6,
            self.add_binary: 3,
            self.add_empty: 2,
            self.add_link: 1,
            self.add_submodule: 1,
            self.edit: 20,
            self.grow_from_nothing: 2,
            self.make_empty: 1,
            self.rename: 4,
            self.delete: 5,
            self.change_mode: 2,
            self.change_type: 2,
            self.give_way_to_folder: 1,
            self.nothing: 1,
        }
        self.random.choices(list(kinds), list(kinds.values()))[0]()


def _quoted(path: bytes) -> bytes:
    """A path as fast-import needs it: in double quotes, with octal escapes for special bytes."""
    plain = set(range(33, 127)) - set(b'"\\')
    return b'"%s"' % b"".join(b"%c" % byte if byte in plain else b"\\%03o" % byte for byte in path)


def _commit(branch: bytes, mark: int, parents: list[int], commands: list[bytes]) -> bytes:
    who = b"Nobody <nobody@example.org> %d +0000" % (FIRST_TIMESTAMP + mark)
    message = b"commit %d" % mark
    lines = [b"commit refs/heads/%s\nmark :%d\ncommitter %s\ndata %d\n%s\n" % (branch, mark, who, len(message), message)]
    lines += [b"%s :%d\n" % (word, parent) for word, parent in zip([b"from", b"merge"], parents)]
    return b"".join(lines + commands) + b"\n"


def _stream(commits: int, seed: int) -> bytes:
    """Commits on the main line; every fiftieth merges a side branch of one commit, which repeats the change of the merge."""
    tree = _Tree(seed)
    parts = []
    mark = 0
    newest: list[int] = []
    for number in range(1, commits + 1):
        tree.commands = []
        for _ in range(tree.random.randint(1, 5) if number > 1 else 20):
            tree.change()
        parents = newest
        if number % 50 == 0:
            mark += 1
            parts.append(_commit(b"side", mark, newest, tree.commands))
            parents = [*newest, mark]
        mark += 1
        parts.append(_commit(b"main", mark, parents, tree.commands))
        newest = [mark]
    return b"".join(parts) + b"done\n"


def generate(folder: Path, commits: int, seed: int) -> None:
    """Makes a bare repository in `folder` with so many commits on the main line."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    for command, given in (
        (["git", "init", "--quiet", "--bare", "--initial-branch=main", str(folder)], b""),
        (["git", "-C", str(folder), "fast-import", "--quiet", "--done"], _stream(commits, seed)),
    ):
        result = subprocess.run(command, input=given, env=environment, capture_output=True, check=False)
        if result.returncode != 0:
            raise GenerationError(f"{' '.join(command)}: {result.stderr.decode(errors='replace').strip()}")
