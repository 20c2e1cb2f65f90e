"""The metadata of a page, as a mapping."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

from ._convert import BytesLike, encoded, fetch, readable
from ._ffi import lib

if TYPE_CHECKING:
    from .page import Page


class Metadata(MutableMapping[str, bytes]):
    """The metadata of a page: keys (str) to values (bytes), in the order in which the keys were first set."""

    __slots__ = ("_page",)

    def __init__(self, page: Page) -> None:
        self._page = page

    def __getitem__(self, key: str) -> bytes:
        name = encoded(key, "key")
        handle = self._page.handle
        status, value = fetch(
            lambda buffer, capacity, length: lib.mmsb_page_metadata_get(handle, name, len(name), buffer, capacity, length)
        )
        self._page._check(status)
        return value

    def __setitem__(self, key: str, value: BytesLike) -> None:
        name = encoded(key, "key")
        data = readable(value)
        self._page._check(lib.mmsb_page_metadata_set(self._page.handle, name, len(name), data.address, data.length))

    def __delitem__(self, key: str) -> None:
        name = encoded(key, "key")
        self._page._check(lib.mmsb_page_metadata_remove(self._page.handle, name, len(name)))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key != "" and super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return self._page.info().metadata_count

    def __repr__(self) -> str:
        return f"<mmsb.Metadata {dict(self)}>"

    def clear(self) -> None:
        """Removes all entries at once."""
        self.import_blob(b"")

    def export_blob(self) -> bytes:
        """All entries as one blob, in the format that snapshots use."""
        handle = self._page.handle
        status, blob = fetch(lambda buffer, capacity, length: lib.mmsb_page_metadata_export(handle, buffer, capacity, length))
        self._page._check(status)
        return blob

    def import_blob(self, blob: BytesLike) -> None:
        """Replaces all entries by those of a blob, or raises and changes nothing. An empty blob removes all entries."""
        data = readable(blob)
        self._page._check(lib.mmsb_page_metadata_import(self._page.handle, data.address, data.length))

    def _names(self) -> list[str]:
        handle = self._page.handle
        status, data = fetch(lambda buffer, capacity, length: lib.mmsb_page_metadata_keys(handle, buffer, capacity, length, None))
        self._page._check(status)
        names, start = [], 0
        while start < len(data):
            length = int.from_bytes(data[start : start + 4], "little")
            names.append(data[start + 4 : start + 4 + length].decode())
            start += 4 + length
        return names
