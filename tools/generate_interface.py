"""Writes what repeats include/mmsb.h in other languages: `make generate`. With --check it compares instead (`make check`).

A file that is written here is only written here: what is added by hand stands in files that import it. A difference
between two languages that the header does not tell (which pointers are arrays, say) is a table below.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import c_header
from c_header import Constant, Function, Header, HeaderError, Struct, Type

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "include" / "mmsb.h"
NOTE = 'Generated from include/mmsb.h by "make generate": do not edit.'

# Macros without a value.
NOT_CONSTANTS = ("MMSB_H", "MMSB_API")

# The sets of constants, by what their names begin with behind MMSB_.
SETS = (
    "VERSION", "E", "KIND", "LOCATION", "DOMAIN", "LOG", "STRUCT", "SIMULATE", "FALLBACK", "PAGE", "PIN", "DELTA",
    "COMPRESSION", "RAW_WRITES", "BASE_IN_USE", "LOAD", "CHANGE", "DURABILITY", "JOURNAL_BASE", "ACCESS", "RECORD", "PATH",
    "GUARD", "STORE", "DEVICE", "SLEEP", "PLUGIN", "PICTURE", "COMMANDS", "SYNC", "TENSOR_CODE",
)  # fmt: skip
SINGLE = ("MMSB_OK", "MMSB_ABI_VERSION", "MMSB_WAIT_FOREVER", "MMSB_NEVER", "MMSB_STREAM_HOST", "MMSB_BLOCK_STREAM")

# The sets that Go needs where the header is not included, and those of them whose names programs read.
GO_SETS = (
    "KIND",
    "LOCATION",
    "LOG",
    "SIMULATE",
    "FALLBACK",
    "DELTA",
    "COMPRESSION",
    "RAW_WRITES",
    "DURABILITY",
    "ACCESS",
    "CHANGE",
    "STORE",
    "DEVICE",
    "SLEEP",
    "PLUGIN",
    "PICTURE",
)
GO_NAMED = ("LOCATION", "LOG", "SIMULATE", "FALLBACK", "DELTA")
# In the form by which Go's tools know generated files.
GO_NOTE = '// Code generated from include/mmsb.h by "make generate". DO NOT EDIT.'
GO_WORDS = {"HTML", "JSON", "CPU", "GPU", "IO", "OK", "CUDA", "NCCL", "NIXL"}

# Parameters of these names that point to scalars are arrays. ctypes then takes addresses, bytes and arrays, else one variable.
ARRAYS = {"pages", "parents", "children", "dependencies", "statuses", "clones", "paths", "sums"}

PYTHON_SCALARS = {
    "char": "c_char",
    "uint8_t": "c_uint8",
    "int32_t": "c_int32",
    "uint32_t": "c_uint32",
    "int64_t": "c_int64",
    "uint64_t": "c_uint64",
    "size_t": "c_size_t",
    "double": "c_double",
}
JULIA_SCALARS = {
    "void": "Cvoid",
    "char": "UInt8",
    "uint8_t": "UInt8",
    "int32_t": "Int32",
    "uint32_t": "UInt32",
    "int64_t": "Int64",
    "uint64_t": "UInt64",
    "size_t": "Csize_t",
    "double": "Float64",
}
JULIA_NUMBERS = {"int": "Int32", "unsigned int": "UInt32", "long": "Int64", "unsigned long": "UInt64"}


def main() -> int:
    try:
        generated = files(c_header.read(HEADER, NOT_CONSTANTS))
    except HeaderError as error:
        print(error)
        return 1
    old = stale(generated)
    if sys.argv[1:] == ["--check"]:
        for name in old:
            print(f"{name} is not what include/mmsb.h says: run `make generate`")
        return 1 if old else 0
    for name in old:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(generated[name], encoding="utf-8")
        print(name)
    return 0


def files(header: Header) -> dict[str, str]:
    """The text of each generated file."""
    verify(header)
    return {
        "abi/libmmsb.symbols": symbols(header),
        "abi/libmmsb.layout": layout(header),
        "bindings/python/src/mmsb/_abi.py": python(header),
        "bindings/julia/src/abi.jl": julia(header),
        "core/abi/abi.go": go_constants(header),
        "core/status/codes.go": go_codes(header),
        "tests/c/interface.h": c_tables(header),
    }


def stale(generated: dict[str, str]) -> list[str]:
    """The files that are missing or say something else."""
    return [
        name
        for name, text in generated.items()
        if not (ROOT / name).is_file() or (ROOT / name).read_text(encoding="utf-8") != text
    ]


# ------------------------------------------------------------------------------------------------------- the header ----


def verify(header: Header) -> None:
    """What the writers below lean on."""
    for constant in header.constants:
        if constant.name not in SINGLE and set_of(constant) is None:
            raise HeaderError(f"{constant.name} is in none of the SETS of tools/generate_interface.py")
    numbered = {constant.name for constant in members(header, "STRUCT")}
    if differ := numbered ^ {number_of(struct) for struct in header.structs}:
        raise HeaderError(f"structs and MMSB_STRUCT_* differ: {differ}")
    for function in header.functions:
        since(function)


def since(function: Function) -> str:
    """The release that brought a function: the last word of its comment."""
    found = re.search(r"Since\s+(?:\* )?(\d+\.\d+)\. \*/$", function.comment)
    if not found:
        raise HeaderError(f'the comment of {function.name} does not end in "Since" and a release')
    return found[1]


def set_of(constant: Constant) -> str | None:
    """The longest of SETS that a constant's name begins with."""
    return max((name for name in SETS if constant.name.startswith(f"MMSB_{name}_")), key=len, default=None)


def members(header: Header, name: str) -> list[Constant]:
    return [constant for constant in header.constants if set_of(constant) == name]


def status_codes(header: Header) -> list[Constant]:
    return [constant for constant in header.constants if constant.name == "MMSB_OK"] + members(header, "E")


def number_of(struct: Struct) -> str:
    return struct.name.replace("mmsb_", "MMSB_STRUCT_", 1).upper()


def plain(constant: Constant) -> str:
    """A constant's name without MMSB_."""
    return constant.name.removeprefix("MMSB_")


def short(constant: Constant) -> str:
    """A constant's name within its set."""
    return constant.name.removeprefix(f"MMSB_{set_of(constant)}_")


# --------------------------------------------------------------------------------------------------- symbols, layout ----


def symbols(header: Header) -> str:
    (abi,) = (constant.value for constant in header.constants if constant.name == "MMSB_ABI_VERSION")
    lines = sorted(f"{function.name}@MMSB_{abi} {since(function)}" for function in header.functions)
    return lined(f"# {NOTE}", "# Each exported symbol, and the release that brought it.", *lines)


def layout(header: Header) -> str:
    lines = [f"# {NOTE}", "# Each public struct and its size; each of its fields, its offset and its size."]
    for struct in header.structs:
        lines.append(f"{struct.name}_t {struct.size}")
        lines += [f"{struct.name}_t.{field.name} {field.offset} {field.size}" for field in struct.fields]
    return lined(*lines)


def c_tables(header: Header) -> str:
    """Asserts for the compiler of the tests, and what the tests ask the library."""
    structs = (f"    {{{number_of(s)}, sizeof({s.name}_t)}}," for s in header.structs)
    codes = (f'    {{{c.name}, "{c.name}"}},' for c in status_codes(header))
    calls = (f'    "{f.name}",' for f in header.functions if f.result == Type("mmsb_status_t"))
    return lined(
        f"/* {NOTE} */",
        "#ifndef MMSB_TESTS_INTERFACE_H",
        "#define MMSB_TESTS_INTERFACE_H",
        "",
        "#include <mmsb.h>",
        "#include <stddef.h>",
        "",
        "#define SIZE_IS(type, size) _Static_assert(sizeof(type) == (size), #type)",
        "#define FIELD_IS(type, field, offset, size) \\",
        "    _Static_assert(offsetof(type, field) == (offset) && sizeof(((type *)0)->field) == (size), #type \".\" #field)",
        *c_asserts(header.structs),
        "",
        "/* Each public struct by its number. */",
        "static const struct interface_struct {",
        "    int32_t number;",
        "    size_t size;",
        "} interface_structs[] = {",
        *structs,
        "};",
        "",
        "/* Each status code. */",
        "static const struct interface_code {",
        "    mmsb_status_t code;",
        "    const char *name;",
        "} interface_codes[] = {",
        *codes,
        "};",
        "",
        "/* Each function that returns a status. */",
        "static const char *const interface_calls[] = {",
        *calls,
        "};",
        "",
        "#endif",
    )  # fmt: skip


def c_asserts(structs: Iterable[Struct]) -> Iterator[str]:
    for struct in structs:
        yield ""
        yield f"SIZE_IS({struct.name}_t, {struct.size});"
        for field in struct.fields:
            yield f"FIELD_IS({struct.name}_t, {field.name}, {field.offset}, {field.size});"


# ------------------------------------------------------------------------------------------------------------ Python ----


def python(header: Header) -> str:
    lines = [
        f"# {NOTE}",
        '"""The C interface: constants, structs and functions, under the names of mmsb.h without MMSB_ or mmsb_.',
        "",
        "A set of constants is also a dict, from their names in lower case. Arrays and bytes are c_void_p, which takes",
        "addresses, bytes objects and ctypes arrays; single results are typed pointers.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "import ctypes",
        f"from ctypes import POINTER, c_char_p, c_void_p, {', '.join(PYTHON_SCALARS.values())}",
        "from typing import Any",
        "",
        *(f"{plain(c)} = {c.value!r}" for c in header.constants),
        "",
    ]
    for name in SETS:
        entries = ", ".join(f"{short(c).lower()!r}: {plain(c)}" for c in members(header, name))
        if name not in ("VERSION", "STRUCT"):
            lines.append(f"{name} = {{{entries}}}")
    for struct in header.structs:
        for field in struct.fields:
            if callback := field.type.callback:
                types = ", ".join(python_type(header, t) for t in (callback.result, *callback.parameters))
                lines.append(f"{camel(field.name)}Function = ctypes.CFUNCTYPE({types})")
        lines.append(f"class {python_struct(struct.name)}(ctypes.Structure):")
        lines.append("    _fields_ = (")
        lines += [f"        ({field.name!r}, {python_field(header, field.name, field.type)})," for field in struct.fields]
        lines.append("    )")
    lines.append("# The number by which mmsb_sizeof knows each struct.")
    lines.append("STRUCTS: dict[int, type[ctypes.Structure]] = {")
    lines += [f"    {number_of(s).removeprefix('MMSB_')}: {python_struct(s.name)}," for s in header.structs]
    lines.append("}")
    lines.append("# Each function's result and parameters.")
    lines.append("FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {")
    for function in header.functions:
        parameters = [python_parameter(header, p.name, p.type) for p in function.parameters]
        joined = ", ".join(parameters) + "," * (len(parameters) == 1)
        lines.append(f"    {function.name!r}: ({python_type(header, function.result)}, ({joined})),")
    lines.append("}")
    ruff = str(Path(sys.executable).parent / "ruff")
    options = ("--no-cache", "--quiet", "--config", str(ROOT / "tools/ruff.toml"), "-")
    return piped(piped(lined(*lines), ruff, "check", "--select", "I", "--fix", *options), ruff, "format", *options)


def python_struct(name: str) -> str:
    return camel(name.removeprefix("mmsb_").removesuffix("_t"))


def python_type(header: Header, found: Type) -> str:
    """A result's or a single variable's type."""
    if found.base == "void":
        return ("None", "c_void_p", "POINTER(c_void_p)")[found.stars]
    if found.base == "char" and found.stars == 1:
        return "c_char_p" if found.const else "c_void_p"
    base = header.scalars.get(found.base, found.base)
    kind = PYTHON_SCALARS.get(base) or python_struct(known_struct(header, base))
    return "POINTER(" * found.stars + kind + ")" * found.stars


def python_parameter(header: Header, name: str, found: Type) -> str:
    scalar = header.scalars.get(found.base, found.base) in PYTHON_SCALARS
    if scalar and found.base != "char" and found.stars == 1 and (found.const or name in ARRAYS):
        return "c_void_p"
    return python_type(header, found)


def python_field(header: Header, name: str, found: Type) -> str:
    if found.callback:
        return f"{camel(name)}Function"
    if found.length is not None:
        return f"{python_type(header, Type(found.base))} * {found.length}"
    return python_type(header, found) if found.stars == 0 or found.base == "char" else "c_void_p"


# ------------------------------------------------------------------------------------------------------------- Julia ----


def julia(header: Header) -> str:
    lines = [f"# {NOTE}", "", "# Constants.", ""]
    lines += [f"const {c.name} = {julia_value(c)}" for c in header.constants]
    lines += ["", "# Types.", ""]
    lines += [f"const {name} = {JULIA_SCALARS[base]}" for name, base in header.scalars.items()]
    for struct in header.structs:
        fields = (f"    {field.name}::{julia_type(header, field.type)}" for field in struct.fields)
        lines += ["", f"struct {struct.name}_t", *fields, "end"]
    lines += ["", "# The number by which mmsb_sizeof knows each struct.", "const STRUCTS = ("]
    lines += [f"    {number_of(struct)} => {struct.name}_t," for struct in header.structs]
    lines += [")", "", "# Functions.", ""]
    for function in header.functions:
        lines += julia_function(header, function)
    return lined(*lines)


def julia_value(constant: Constant) -> str:
    if isinstance(constant.value, str):
        return f'"{constant.value}"'
    return f"{JULIA_NUMBERS[constant.type]}({constant.value})"


def julia_type(header: Header, found: Type) -> str:
    if found.callback:
        return "Ptr{Cvoid}"
    base = found.base if found.base in header.scalars else JULIA_SCALARS.get(found.base) or known_struct(header, found.base)
    return f"NTuple{{{found.length},{base}}}" if found.length is not None else "Ptr{" * found.stars + base + "}" * found.stars


def julia_function(header: Header, function: Function) -> list[str]:
    names = ", ".join(p.name for p in function.parameters)
    parameters = ", ".join(f"{p.name}::{julia_type(header, p.type)}" for p in function.parameters)
    result = "Cstring" if function.result == Type("char", 1, True) else julia_type(header, function.result)
    head, call = f"{function.name}({names}) =", f"@ccall libmmsb.{function.name}("
    if len(line := f"{head} {call}{parameters})::{result}") <= 120:
        return [line]
    if len(line := f"    {call}{parameters})::{result}") <= 120:
        return [head, line]
    wrapped = textwrap.wrap(parameters, 112, break_long_words=False)
    return [head, f"    {call}", *(f"        {line}" for line in wrapped), f"    )::{result}"]


def known_struct(header: Header, name: str) -> str:
    if name not in {f"{struct.name}_t" for struct in header.structs}:
        raise HeaderError(f"{name} is neither a struct of the header nor a type of a fixed width")
    return name


# ---------------------------------------------------------------------------------------------------------------- Go ----


def go_constants(header: Header) -> str:
    lines = [GO_NOTE, "", "// Package abi holds constants of mmsb.h, for packages that do not include it.", "package abi"]
    lines.append("// WaitForever is the timeout that never ends.")
    lines += [f"const WaitForever uint64 = {c.value}" for c in header.constants if c.name == "MMSB_WAIT_FOREVER"]
    for name in GO_SETS:
        lines += ["", f"// MMSB_{name}_*.", "const ("]
        lines += [f"\t{go_name(plain(c))} = {c.value}" for c in members(header, name)]
        lines.append(")")
        if name in GO_NAMED:
            lines += go_names(header, name)
    return piped(lined(*lines), "gofmt")


def go_names(header: Header, name: str) -> Iterator[str]:
    yield f"// {go_name(name)}Names has their names, as texts for people have them, at their values."
    yield f"var {go_name(name)}Names = [...]string{{"
    for c in members(header, name):
        if int(c.value) >= 0:
            yield f'\t{go_name(plain(c))}: "{short(c).lower().replace("_", "-")}",'
    yield "}"


def go_codes(header: Header) -> str:
    codes = [(c, go_name(plain(c).removeprefix("E_"))) for c in status_codes(header)]
    lines = [GO_NOTE, "", "package status", "", "// The codes of mmsb.h.", "const ("]
    lines += [f"\t{name} Code = {c.value}" for c, name in codes]
    lines += [
        ")",
        "",
        "// names is keyed by code, so that a value that is used twice does not compile.",
        "var names = map[Code]string{",
    ]
    lines += [f'\t{name}: "{c.name}",' for c, name in codes]
    lines += ["}", "", "// Whose number Error.Foreign is: the MMSB_DOMAIN_* of mmsb.h.", "const ("]
    lines += [f"\t{go_name(plain(c))} int32 = {c.value}" for c in members(header, "DOMAIN")]
    lines.append(")")
    return piped(lined(*lines), "gofmt")


def go_name(name: str) -> str:
    """IF_NO_GPU is IfNoGPU."""
    return "".join(word if word in GO_WORDS else word.title() for word in name.split("_"))


# ------------------------------------------------------------------------------------------------------------- texts ----


def camel(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))


def lined(*lines: str) -> str:
    return "\n".join(lines) + "\n"


@functools.cache
def piped(text: str, *command: str) -> str:
    """A text as a formatter gives it back."""
    return subprocess.run(command, check=True, input=text, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
