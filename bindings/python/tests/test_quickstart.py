"""What the quickstart does, as far as it needs neither a GPU nor a snapshot."""

from __future__ import annotations

import mmsb
import numpy as np
import pytest


def test_the_quickstart() -> None:
    with mmsb.Context(simulate="if-no-gpu") as ctx:
        page = ctx.create_page(65536)
        state = page.array("float32")
        state[:] = 1.0
        del state

        page.apply(mmsb.Delta.indexed(offsets=[10, 11, 4096], values=b"\x01\x02\x03"))
        page.metadata["step"] = b"42"

        page.migrate("disk")
        assert page.location == "disk"
        assert page.epoch == 1
        assert page.read(4096, 1) == b"\x03"

        many = ctx.create_pages(1000, 4096)
        ctx.apply_many([(p, mmsb.Delta.runs([(0, b"hello")])) for p in many])
        page_id = page.id

        page = ctx.page(page_id)
        assert page.read(10, 2) == b"\x01\x02"
        assert page.metadata["step"] == b"42"
        assert len(ctx) == 1001
        page.migrate("cpu")
        assert np.asarray(page)[4096] == 3
        assert str(ctx.stats())

    with pytest.raises(mmsb.ClosedError):
        page.read(0, 1)
