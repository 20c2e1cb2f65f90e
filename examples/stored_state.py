"""Keeps the pages of a replay in a store: what kept_state.py does by hand, the library does here.

A commit is a group, so after a kill at any moment the store has all of it or nothing; its number and name are metadata of a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mmsb
from kept_state import POSITION_PAGE, commits_of


class StoredState:
    """The state of one replay, in an open store."""

    def __init__(self, store: mmsb.Store) -> None:
        self.store = store
        self.folder = Path(store.directory)
        self.position = store.get(POSITION_PAGE) or store.create_page(1, id=POSITION_PAGE)

    def commits(self) -> tuple[int, bytes]:
        """The number of whole commits in the pages, and the name of the newest."""
        return commits_of({"done": b"0 none", **self.position.metadata})

    @contextmanager
    def commit(self, number: int, name: bytes) -> Iterator[None]:
        """Around the changes of a commit."""
        with self.store.group():
            yield
            self.position.metadata["done"] = b"%d %s" % (number, name)
