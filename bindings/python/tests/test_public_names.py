"""No public name without a test."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import mmsb


def public_names() -> set[str]:
    names = {*mmsb.__all__, *mmsb.state.__all__}
    for thing in (*(getattr(mmsb, name) for name in mmsb.__all__), mmsb.state.StoredArray, mmsb.state.Tracker):
        if inspect.isclass(thing) and not issubclass(thing, (Exception, tuple)):
            names |= {attribute for attribute in vars(thing) if not attribute.startswith("_")}
            names |= set(getattr(thing, "__dataclass_fields__", ()))
        elif inspect.isclass(thing):
            names |= set(getattr(thing, "_fields", ()))
    return names


def test_every_public_name_is_used_in_a_test() -> None:
    here = Path(__file__)
    tests = "\n".join(path.read_text() for path in here.parent.glob("test_*.py") if path != here)
    words = set(re.findall(r"\w+", tests))
    names = public_names()
    assert {
        "Context",
        "create_pages",
        "mask_count",
        "ClosedError",
        "location_bytes",
        "read_pins",
        "export_npz",
        "page_id",
    } <= names
    assert names - words == set()


def test_all_names_what_is_there() -> None:
    assert sorted(mmsb.__all__) == sorted(
        name for name in vars(mmsb) if not name.startswith("_") and not inspect.ismodule(getattr(mmsb, name))
    )
