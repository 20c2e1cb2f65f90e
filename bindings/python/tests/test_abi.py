"""What is generated from include/mmsb.h, as ctypes and the package see it. `make check` knows whether it is generated anew."""

from __future__ import annotations

import ctypes
from pathlib import Path

import mmsb
import pytest
from mmsb import _abi, _ffi
from mmsb._ffi import lib

LAYOUT = Path(__file__).resolve().parents[3] / "abi" / "libmmsb.layout"


def layout() -> dict[str, list[int]]:
    """Each struct with its size, each field (struct.field) with its offset and size, as C has them."""
    lines = [line.split() for line in LAYOUT.read_text().splitlines() if not line.startswith("#")]
    return {words[0]: [int(word) for word in words[1:]] for words in lines}


def layout_of(structs: list[type[ctypes.Structure]]) -> dict[str, list[int]]:
    """The same, as ctypes has them."""
    found: dict[str, list[int]] = {}
    for struct in structs:
        name = "mmsb" + "".join(f"_{c.lower()}" if c.isupper() else c for c in struct.__name__) + "_t"
        found[name] = [ctypes.sizeof(struct)]
        for field, *_ in struct._fields_:
            place = getattr(struct, field)
            found[f"{name}.{field}"] = [place.offset, place.size]
    return found


def test_structs_lie_as_in_c() -> None:
    assert layout_of(list(_abi.STRUCTS.values())) == layout()
    assert len(_abi.STRUCTS) == 52


def test_a_struct_that_lies_otherwise_is_found() -> None:
    class Run(ctypes.Structure):
        _fields_ = (("length", ctypes.c_uint64), ("offset", ctypes.c_uint64))

    assert layout_of([_abi.Run]).items() <= layout().items()
    assert not layout_of([Run]).items() <= layout().items()


def test_structs_have_the_size_that_the_library_says() -> None:
    assert {number: lib.mmsb_sizeof(number) for number in _abi.STRUCTS} == {
        number: ctypes.sizeof(struct) for number, struct in _abi.STRUCTS.items()
    }


def test_every_function_is_in_the_library() -> None:
    assert len(_abi.FUNCTIONS) > 80
    for name in _abi.FUNCTIONS:
        assert callable(getattr(lib, name))


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("mmsb_page_lookup_many", 1),  # const uint64_t *ids
        ("mmsb_page_lookup_many", 3),  # mmsb_page_t *pages
        ("mmsb_page_parents", 1),
        ("mmsb_page_children", 1),
        ("mmsb_context_pages", 2),
        ("mmsb_page_migrate_many", 5),  # mmsb_status_t *statuses
        ("mmsb_page_read", 2),  # void *buffer
        ("mmsb_log_read", 0),  # char *buffer
    ],
)
def test_arrays_are_taken_by_address(name: str, argument: int) -> None:
    assert _abi.FUNCTIONS[name][1][argument] is ctypes.c_void_p


def test_single_results_are_typed() -> None:
    assert _abi.FUNCTIONS["mmsb_page_lookup"][1][2] is ctypes.POINTER(ctypes.c_uint64)
    assert _abi.FUNCTIONS["mmsb_context_pages"][1][1] is ctypes.POINTER(ctypes.c_uint64)
    assert _abi.FUNCTIONS["mmsb_delta_merge"][1][2] is ctypes.POINTER(ctypes.POINTER(_abi.Delta))


def test_names_of_values_are_those_of_the_documentation() -> None:
    assert list(_ffi.LOCATIONS) == ["cpu", "gpu", "unified", "pinned", "disk"]
    assert list(_ffi.SIMULATIONS) == ["off", "if-no-gpu", "always"]
    assert list(_abi.DELTA) == ["dense_bytes", "dense_bits", "sparse_bits", "indexed", "runs"]
    assert list(_abi.ACCESS) == ["read", "write", "read_write"]


def test_each_code_has_its_exception() -> None:
    names = {code: "".join(part.title() for part in name.split("_")) + "Error" for name, code in _abi.E.items()}
    assert {code: getattr(mmsb, name).code for code, name in names.items()} == {code: code for code in names}


def test_the_package_has_the_version_of_the_header() -> None:
    assert mmsb.__version__ == _abi.VERSION_STRING
    assert f"{_abi.VERSION_MAJOR}.{_abi.VERSION_MINOR}.{_abi.VERSION_PATCH}" == _abi.VERSION_STRING
