"""The table of functions, the structs and the constants against include/mmsb.h."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import mmsb
import pytest
from mmsb import _ffi

HEADER = (Path(__file__).resolve().parents[3] / "include" / "mmsb.h").read_text()

SCALARS: dict[str, Any] = {
    "char": ctypes.c_char,
    "uint8_t": ctypes.c_uint8,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
}


def differences(header: str) -> list[str]:
    """A line for each point in which the package differs from a header."""
    header = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL)
    scalars = SCALARS | {new: SCALARS[old] for old, new in re.findall(r"typedef (\w+) (mmsb_\w+);", header)}
    bodies = dict(re.findall(r"typedef struct mmsb_(\w+) \{(.*?)\} mmsb_\w+_t;", header, flags=re.DOTALL))
    structs = {f"mmsb_{name}_t": getattr(_ffi, camel(name), None) for name in bodies}
    callbacks = {
        "void (*release)(void *user, void *memory, uint64_t size)": _ffi.ReleaseFunction,
        "int32_t (*refused)(void *user, uint64_t bytes, uint32_t attempt, mmsb_status_t code)": _ffi.RefusedFunction,
    }
    found = []

    def wanted(kind: str, stars: int) -> tuple[Any, ...]:
        """The ctypes types that stand for a C type with so many stars."""
        if stars == 2:
            return (ctypes.POINTER(ctypes.c_void_p),) if kind == "void" else (ctypes.POINTER(ctypes.POINTER(structs[kind])),)
        if stars == 0:
            return (None,) if kind == "void" else (scalars[kind],)
        if kind == "void":
            return (ctypes.c_void_p,)
        if kind == "char":
            return (ctypes.c_char_p, ctypes.c_void_p)
        if kind in structs:
            return (ctypes.POINTER(structs[kind]),)
        return (ctypes.POINTER(scalars[kind]), ctypes.c_void_p)

    def split(declaration: str) -> tuple[str, int, str]:
        """Type, number of stars and name of a declaration."""
        words = declaration.replace("*", " * ").replace("const ", "").split()
        return words[0], words.count("*"), words[-1]

    prototypes = re.findall(r"MMSB_API\s+([^;(]*?)\(([^;]*)\);", header)
    names = set()
    for result, arguments in prototypes:
        kind, stars, name = split(result)
        names.add(name)
        if name not in _ffi.FUNCTIONS:
            found.append(f"{name}: not in the table")
            continue
        restype, argtypes = _ffi.FUNCTIONS[name]
        if restype not in wanted(kind, stars):
            found.append(f"{name}: result {restype}")
        declared = [] if arguments.strip() == "void" else arguments.split(",")
        if len(declared) != len(argtypes):
            found.append(f"{name}: {len(argtypes)} arguments")
        for index, (argument, argtype) in enumerate(zip(declared, argtypes)):
            kind, stars, _ = split(argument)
            if argtype not in wanted(kind, stars):
                found.append(f"{name}: argument {index} is {argtype}")
    found += [f"{name}: not in the header" for name in _ffi.FUNCTIONS.keys() - names]

    for name, body in bodies.items():
        struct = structs[f"mmsb_{name}_t"]
        if struct is None:
            found.append(f"{name}: no struct")
            continue
        fields = [field.strip() for field in body.split(";") if field.strip()]
        if len(fields) != len(struct._fields_):
            found.append(f"{name}: {len(struct._fields_)} fields")
        for field, (ours, ctype) in zip(fields, struct._fields_):
            function = re.match(r"\w+ \(\*(\w+)\)\(", field)
            array = re.fullmatch(r"(\w+) (\w+)\[(\d+)\]", field)
            if function:
                theirs, types = function[1], tuple(f for text, f in callbacks.items() if field.startswith(text))
            elif array:
                theirs, types = array[2], (scalars[array[1]] * int(array[3]),)
            else:
                kind, stars, theirs = split(field)
                types = wanted(kind, stars) + ((ctypes.c_void_p,) if stars else ())
            if ours != theirs or ctype not in types:
                found.append(f"{name}: {ours} {ctype} for {field}")
        number = constants(header).get(f"STRUCT_{name.upper()}")
        if _ffi.STRUCTS.get(number or 0) is not struct:
            found.append(f"{name}: mmsb_sizeof knows it as {number}")
    return found


def constants(header: str) -> dict[str, int]:
    found = {name: int(value) for name, value in re.findall(r"#define MMSB_(\w+) \(?(-?\d+)\)?", header)}
    return found | {"WAIT_FOREVER": 2**64 - 1}


def camel(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))


def test_functions_and_structs_are_those_of_the_header() -> None:
    assert differences(HEADER) == []
    assert len(_ffi.FUNCTIONS) > 80
    assert len(_ffi.STRUCTS) == 27


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mmsb_page_resize(mmsb_page_t page, uint64_t size)", "mmsb_page_resize(mmsb_page_t page, uint32_t size)"),
        ("mmsb_page_epoch(", "mmsb_page_epoch2("),
        ("MMSB_API uint64_t mmsb_page_size(", "MMSB_API int32_t mmsb_page_size("),
        ("mmsb_status_t mmsb_shutdown(void)", "mmsb_status_t mmsb_shutdown(int32_t how)"),
        ("    uint32_t read_pins;\n    uint32_t write_pins;", "    uint32_t write_pins;\n    uint32_t read_pins;"),
        ("char name[32]", "char name[64]"),
        ("#define MMSB_STRUCT_RUN 11", "#define MMSB_STRUCT_RUN 99"),
        ("    uint64_t uniform_length;\n", ""),
    ],
)
def test_a_difference_is_found(old: str, new: str) -> None:
    assert old in HEADER
    assert differences(HEADER.replace(old, new)) != []


def test_constants_are_those_of_the_header() -> None:
    theirs = constants(HEADER)
    plain = {name: value for name, value in vars(_ffi).items() if name.isupper() and isinstance(value, int)}
    assert plain.items() <= theirs.items()
    assert {"ABI_VERSION", "E_STALE_HANDLE", "PIN_WRITE", "WAIT_FOREVER"} <= plain.keys()
    for prefix, table in {
        "KIND": _ffi.KINDS,
        "LOCATION": _ffi.LOCATIONS,
        "SIMULATE": _ffi.SIMULATE,
        "FALLBACK": _ffi.FALLBACK,
        "DOMAIN": _ffi.DOMAINS | {"none": 0},
        "LOG": _ffi.LOG_LEVELS,
        "DELTA": _ffi.DELTA_KINDS,
        "COMPRESSION": _ffi.COMPRESSION,
        "RAW_WRITES": _ffi.RAW_WRITES,
        "LOAD": _ffi.LOAD,
        "CHANGE": _ffi.CHANGE,
        "DURABILITY": _ffi.DURABILITY,
        "ACCESS": _ffi.ACCESS,
    }.items():
        ours = {f"{prefix}_{name.upper().replace('-', '_')}": number for name, number in table.items()}
        assert ours == {
            name: value for name, value in theirs.items() if name.startswith(prefix + "_") and name != "LOCATION_DEFAULT"
        }


def test_each_code_has_its_exception() -> None:
    codes = {name[2:]: value for name, value in constants(HEADER).items() if name.startswith("E_")}
    assert {name: getattr(mmsb, camel(name) + "Error").code for name in codes} == codes


def test_the_package_has_the_version_of_the_header() -> None:
    assert f'#define MMSB_VERSION_STRING "{mmsb.__version__}"' in HEADER
