"""What a C header declares, as libclang reads it: functions, structs, constants and names of types.

Nothing here knows what is made of it.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clang import cindex  # type: ignore[import-untyped]

KIND = cindex.CursorKind

# What read knows; uses of macros and includes say nothing of their own.
READ = {KIND.FUNCTION_DECL, KIND.STRUCT_DECL, KIND.TYPEDEF_DECL, KIND.MACRO_DEFINITION}
READ |= {KIND.MACRO_INSTANTIATION, KIND.INCLUSION_DIRECTIVE}

# What declared_names takes the names of, beside enumerators.
NAMED = {KIND.FUNCTION_DECL, KIND.VAR_DECL, KIND.TYPEDEF_DECL, KIND.STRUCT_DECL, KIND.UNION_DECL, KIND.MACRO_DEFINITION}


class HeaderError(Exception):
    """A header that cannot be read, or declares what it must not."""


@dataclass(frozen=True)
class Type:
    """A type as it is written: base, then stars; of an array its length; of a pointer to a function that function."""

    base: str
    stars: int = 0
    const: bool = False  # the base
    length: int | None = None
    callback: Callback | None = None


@dataclass(frozen=True)
class Callback:
    result: Type
    parameters: tuple[Type, ...]


@dataclass(frozen=True)
class Parameter:
    name: str
    type: Type


@dataclass(frozen=True)
class Function:
    name: str
    result: Type
    parameters: tuple[Parameter, ...]
    comment: str


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    offset: int
    size: int


@dataclass(frozen=True)
class Struct:
    name: str  # without "struct"; its typedef ends in _t
    fields: tuple[Field, ...]
    size: int


@dataclass(frozen=True)
class Constant:
    """A macro that stands for a number or a text; its C type is "int", "unsigned long" or "text"."""

    name: str
    value: int | str
    type: str


@dataclass(frozen=True)
class Header:
    functions: tuple[Function, ...]
    structs: tuple[Struct, ...]
    constants: tuple[Constant, ...]
    scalars: dict[str, str]  # a typedef's name and what it stands for


def is_foreign(name: str) -> bool:
    """Whether a name is one of Arrow's, which its specification has headers declare. A pointer to its structs is one to void."""
    return name.startswith(("Arrow", "ARROW_"))


def read(path: Path, not_constants: Iterable[str] = ()) -> Header:
    """The whole of a header, without what it declares for others. not_constants are the macros that have no value."""
    cursors = [c for c in _declarations(path, _parse(path, [])) if not is_foreign(c.spelling)]
    if unknown := [c.spelling for c in cursors if c.kind not in READ]:
        raise HeaderError(f"{path.name} declares what is not read here: {', '.join(unknown)}")
    macros = [c for c in cursors if c.kind == KIND.MACRO_DEFINITION and c.spelling not in not_constants]
    return Header(
        functions=tuple(_function(c) for c in cursors if c.kind == KIND.FUNCTION_DECL),
        structs=tuple(_struct(c) for c in cursors if c.kind == KIND.STRUCT_DECL),
        constants=_constants(path, macros),
        scalars={
            c.spelling: _type(c.underlying_typedef_type).base
            for c in cursors
            if c.kind == KIND.TYPEDEF_DECL and c.underlying_typedef_type.get_canonical().kind != cindex.TypeKind.RECORD
        },
    )


def declared_names(path: Path, options: Iterable[str] = (), text: str | None = None) -> set[str]:
    """The names that a header, or a text in its place, brings to who includes it: static functions stay its own."""
    names: set[str] = set()
    for cursor in _declarations(path, _parse(path, options, text)):
        if cursor.kind == KIND.ENUM_DECL:
            names.update(enumerator.spelling for enumerator in cursor.get_children())
        elif cursor.kind in NAMED and not cursor.is_anonymous() and cursor.linkage != cindex.LinkageKind.INTERNAL:
            names.add(cursor.spelling)
    return names


@functools.cache
def _system_headers() -> str:
    """The compiler's own headers (stddef.h): libclang's wheel has none."""
    command = ["gcc", "-print-file-name=include"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _parse(path: Path, options: Iterable[str], text: str | None = None) -> Any:
    arguments = ["-x", "c", "-std=gnu11", "-fparse-all-comments", "-isystem", _system_headers(), *options]
    unit = cindex.Index.create().parse(
        str(path),
        args=arguments,
        unsaved_files=[(str(path), text)] if text is not None else None,
        options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD,
    )
    if faults := [str(found) for found in unit.diagnostics if found.severity >= cindex.Diagnostic.Error]:
        raise HeaderError("\n".join(faults))
    return unit


def _declarations(path: Path, unit: Any) -> Iterator[Any]:
    """What stands in the file itself, not in what it includes."""
    return (c for c in unit.cursor.get_children() if c.location.file and Path(c.location.file.name) == path)


def _type(found: Any) -> Type:
    if found.kind == cindex.TypeKind.CONSTANTARRAY:
        element = _type(found.element_type)
        if element != Type(element.base):
            raise HeaderError(f"{found.spelling} is an array of something other than numbers or structs")
        return Type(element.base, length=found.element_count)
    stars = 0
    while found.kind == cindex.TypeKind.POINTER:
        found, stars = found.get_pointee(), stars + 1
        if found.get_canonical().kind == cindex.TypeKind.FUNCTIONPROTO:
            parameters = tuple(_type(argument) for argument in found.argument_types())
            return Type("function", callback=Callback(_type(found.get_result()), parameters))
    const = found.is_const_qualified()
    base = found.spelling.removeprefix("const ")
    return Type("void" if is_foreign(base.removeprefix("struct ")) else base, stars, const)


def _function(cursor: Any) -> Function:
    parameters = tuple(Parameter(argument.spelling, _type(argument.type)) for argument in cursor.get_arguments())
    return Function(cursor.spelling, _type(cursor.result_type), parameters, cursor.raw_comment or "")


def _struct(cursor: Any) -> Struct:
    fields = tuple(
        Field(field.spelling, _type(field.type), cursor.type.get_offset(field.spelling) // 8, field.type.get_size())
        for field in cursor.type.get_fields()
    )
    return Struct(cursor.spelling, fields, cursor.type.get_size())


def _constants(path: Path, macros: list[Any]) -> tuple[Constant, ...]:
    """The values of macros. A text is one token; the compiler evaluates numbers, in lines behind the header's own."""
    texts: dict[str, Constant] = {}
    lines: list[str] = []
    for macro in macros:
        tokens = [token.spelling for token in macro.get_tokens()][1:]
        if len(tokens) == 1 and tokens[0].startswith('"'):
            texts[macro.spelling] = Constant(macro.spelling, tokens[0].strip('"'), "text")
        else:
            name = macro.spelling
            lines.append(f"enum {{ value_{name} = {name} }}; extern __typeof__({name}) type_{name};")
    text = path.read_text(encoding="utf-8") + "\n".join(lines)
    values: dict[str, int] = {}
    types: dict[str, str] = {}
    for cursor in _declarations(path, _parse(path, [], text)):
        if cursor.kind == KIND.ENUM_DECL:
            values.update((value.spelling, value.enum_value) for value in cursor.get_children())
        elif cursor.kind == KIND.VAR_DECL:
            types[cursor.spelling] = cursor.type.get_canonical().spelling
    return tuple(
        texts.get(name) or Constant(name, values[f"value_{name}"], types[f"type_{name}"])
        for name in (macro.spelling for macro in macros)
    )
