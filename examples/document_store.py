#!/usr/bin/env python3
"""A document store: JSON documents by name, changed together or not at all, kept by a store of libmmsb.

Each document is a page; the page's metadata has its name. `document_store.py DIR` shows what the class does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import mmsb


class Documents(Mapping[str, Any]):
    """The documents of a folder. The options are those of mmsb.open(): at="name" reads them as they were."""

    def __init__(self, folder: str, **options: Any) -> None:
        self.store = mmsb.open(folder, **options)
        self._pages = {page.metadata["name"].decode(): page for page in self.store.pages()}

    def __getitem__(self, name: str) -> Any:
        return json.loads(self._pages[name].read())

    def __iter__(self) -> Iterator[str]:
        return iter(self._pages)

    def __len__(self) -> int:
        return len(self._pages)

    def update(self, **documents: Any) -> None:
        """Sets documents, or removes those that are None: all of them, or, if anything raises, none."""
        pages = dict(self._pages)
        with self.store.group():
            for name, document in documents.items():
                page = pages.pop(name, None)
                if document is None and page is not None:
                    page.destroy()
                if document is None:
                    continue
                data = json.dumps(document).encode()
                if page is None:
                    page = self.store.create_page(len(data))
                    page.metadata["name"] = name.encode()
                page.resize(len(data))
                page.write(0, data)
                pages[name] = page
        self._pages = pages


def main(folder: str) -> None:
    documents = Documents(folder)
    documents.update(alice={"balance": 100}, bob={"balance": 0}, carol=None)
    documents.store.name("before")
    documents.update(alice={"balance": 70}, bob={"balance": 30})
    try:
        documents.update(alice={"balance": 0}, bob={"balance": object()})  # which is no JSON: alice keeps her 70
    except TypeError as error:
        print(f"nothing has changed: {error}")
    documents.store.close()  # a kill leaves the same
    print("now:   ", dict(Documents(folder, mode="read")))
    print("before:", dict(Documents(folder, at="before")))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "documents")
