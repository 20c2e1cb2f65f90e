"""Mutants: the library's source with one bug planted, in copies that only a test builds.

A mutant is tied to the name of a function, in whatever file of its folders it lies, and to a text inside that function, compared
token by token: neither formatting nor a move to another file matters. What is not there exactly once raises MisfitError.

All mutants of a build share it. Each function with mutants begins with a copy of its body for each of them, which runs
where the environment's MMSB_MUTANT has the mutant's number:

    int f(int x) {                 int f(int x) {
        return x + 1;      →           if (mmsb__mutant == 3) { return x - 1; }
    }                                  return x + 1;
                                   }
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    name: str
    bug: str  # in one sentence
    function: str  # NAME, or TYPE.NAME for a method of Go or Python
    find: str  # is in the function's body once
    replace: str
    mode: str = ""  # which of the subject's tests must catch it, where not all are to look
    harmless: bool = False  # no bug, but what mutants of the subject share: no test may fail


class MisfitError(Exception):
    """A mutant no longer applies: the source has changed, and the catalogue must follow."""


@dataclass(frozen=True)
class Token:
    text: str
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Function:
    name: str
    file: Path
    body: Sequence[Token]  # between the braces; in Python the lines behind what documents it
    start: int  # of that text
    end: int
    returns_nothing: bool


SPACE = r"\s+|\\\n|//[^\n]*|/\*.*?\*/"
TOKEN = re.compile(rf"(?:{SPACE})|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`[^`]*`|\w+|.)", re.DOTALL)
OF_PYTHON = re.compile(r"(?:\s+|\\\n|#[^\n]*)|(\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|\w+|.)", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)


def tokens(text: str, pattern: re.Pattern[str] = TOKEN) -> list[Token]:
    return [Token(match[1], *match.span(1)) for match in pattern.finditer(text) if match[1]]


def closing(code: Sequence[Token], at: int) -> int:
    """Where the bracket at a place is closed."""
    depth = 0
    for i in range(at, len(code)):
        depth += code[i].text in ("(", "{", "[")
        depth -= code[i].text in (")", "}", "]")
        if depth == 0:
            return i
    raise MisfitError(f"the bracket {code[at].text} at {code[at].start} is never closed")


def go_functions(text: str, file: Path) -> Iterator[Function]:
    code, at = tokens(text), 0
    while at < len(code) - 1:
        if code[at].text == "{":
            at = closing(code, at) + 1
            continue
        at += 1
        if code[at - 1].text != "func":
            continue
        receiver = ""
        if code[at].text == "(":
            end = closing(code, at)
            words = [token.text for token in code[at:end] if token.text.isidentifier()]
            receiver = words[min(1, len(words) - 1)] + "." if words else ""
            at = end + 1
        name = code[at].text
        parameters = at + 1
        if code[parameters].text == "[":
            parameters = closing(code, parameters) + 1
        if not name.isidentifier() or code[parameters].text != "(":
            continue
        after = begin = closing(code, parameters) + 1
        while code[begin].text != "{" or code[begin - 1].text in ("interface", "struct"):
            begin = closing(code, begin) + 1 if code[begin].text in ("(", "{", "[") else begin + 1
        at = closing(code, begin)
        yield Function(receiver + name, file, code[begin + 1 : at], code[begin].end, code[at].start, begin == after)


def c_functions(text: str, file: Path) -> Iterator[Function]:
    # Directives stand outside of blocks and in them: as blanks they are in nobody's way, and offsets stay.
    code = tokens(DIRECTIVE.sub(lambda match: " " * len(match[0]), text))
    at = 0
    name = 0  # what stands before the last parentheses outside of blocks
    while at < len(code):
        token = code[at]
        if token.text == "(":
            name = name if code[at - 1].text == "__attribute__" else at - 1
            at = closing(code, at)
        elif token.text == "{":
            end = closing(code, at)
            if code[at - 1].text == ")":
                nothing = code[behind_attributes(code, name)].text == "void"
                body = tokens_between(text, token.end, code[end].start)
                yield Function(code[name].text, file, body, token.end, code[end].start, nothing)
            at = end
        at += 1


def behind_attributes(code: Sequence[Token], name: int) -> int:
    """Where the type of a function ends: attributes may stand between that and the name."""
    at = name - 1
    while code[at].text == ")":
        depth = 1
        while depth > 0:
            at -= 1
            depth += (code[at].text == ")") - (code[at].text == "(")
        at -= 2  # before __attribute__
    return at


def python_functions(text: str, file: Path) -> Iterator[Function]:
    """Those of a module and its classes, whose bodies begin on a line of their own."""
    lines = [0]  # where each begins
    for line in text.split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    for top in ast.parse(text).body:
        for node in top.body if isinstance(top, ast.ClassDef) else [top]:
            if not isinstance(node, ast.FunctionDef):
                continue
            body = node.body[1:] if len(node.body) > 1 and ast.get_docstring(node) is not None else node.body
            if body[0].lineno > node.lineno:
                name = f"{top.name}.{node.name}" if isinstance(top, ast.ClassDef) else node.name
                start, end = lines[body[0].lineno - 1], lines[body[-1].end_lineno or 0]
                yield Function(name, file, tokens_between(text, start, end, OF_PYTHON), start, end, False)


def tokens_between(text: str, start: int, end: int, pattern: re.Pattern[str] = TOKEN) -> list[Token]:
    return [Token(token.text, token.start + start, token.end + start) for token in tokens(text[start:end], pattern)]


def braced(switch: str, leave: str) -> Callable[[int, str, Function], str]:
    """A body that runs where the environment has its number."""

    def wrap(number: int, body: str, function: Function) -> str:
        return f"\n{switch.format(number)}{body}\n{leave if function.returns_nothing else ''}}}\n"

    return wrap


def indented(number: int, body: str, _: Function) -> str:
    """The same in Python."""
    margin = body[: len(body) - len(body.lstrip(" "))]
    switch = f'{margin}if __import__("os").environ.get("MMSB_MUTANT") == "{number}":\n'
    return f"{switch}{textwrap.indent(body, '    ')}{margin}    return\n"


FUNCTIONS = {"Go": go_functions, "C": c_functions, "Python": python_functions}
WRAP = {
    "Go": braced("if mmsbMutant == {} {{", "return\n"),
    "C": braced("if (mmsb__mutant == {}) {{", "return;\n"),
    "Python": indented,
}


@cache  # the catalogue names most files many times
def functions_of(language: str, text: str, file: Path) -> Sequence[Function]:
    return list(FUNCTIONS[language](text, file))


def place(mutant: Mutant, functions: Sequence[Function]) -> Function:
    """The one function that a mutant names; a method also by its name alone, where no function has it."""
    named = [f for f in functions if f.name == mutant.function] or [
        f for f in functions if f.name.rpartition(".")[2] == mutant.function
    ]
    if len(named) != 1:
        where = ", ".join(f"{f.name} in {f.file}" for f in named) or "none"
        raise MisfitError(f"{mutant.name}: one function {mutant.function} is wanted, there are: {where}")
    return named[0]


def mutated(mutant: Mutant, function: Function, text: str, pattern: re.Pattern[str]) -> str:
    """A function's body with the bug."""
    code = [token.text for token in function.body]
    wanted = [token.text for token in tokens(mutant.find, pattern)]
    found = [at for at in range(len(code) - len(wanted) + 1) if code[at : at + len(wanted)] == wanted]
    if len(found) != 1 or not wanted:
        where = f"{function.name} in {function.file}"
        raise MisfitError(f"{mutant.name}: {where} has {len(found)} times what is to be there once: {mutant.find}")
    # A statement that goes leaves its semicolon: it may be the only one of an if.
    replace = mutant.replace or (";" if wanted[-1] == ";" else "")
    first, last = function.body[found[0]], function.body[found[0] + len(wanted) - 1]
    return text[function.start : first.start] + replace + text[last.end : function.end]


@dataclass(frozen=True)
class Planting:
    """Mutants, numbered from first on, and the files that their functions are in."""

    first: int
    files: Sequence[Path]
    mutants: Sequence[Mutant]


def plant(language: str, plantings: Sequence[Planting]) -> dict[Path, str]:
    """The changed files with all mutants. Raises MisfitError with a line for each that does not fit."""
    texts = {file: file.read_text(encoding="utf-8") for planting in plantings for file in planting.files}
    functions = {file: functions_of(language, text, file) for file, text in texts.items()}
    pattern = OF_PYTHON if language == "Python" else TOKEN
    bodies: dict[Function, str] = {}
    problems = []
    for planting in plantings:
        candidates = [function for file in planting.files for function in functions[file]]
        for number, mutant in enumerate(planting.mutants, planting.first):
            try:
                function = place(mutant, candidates)
                body = mutated(mutant, function, texts[function.file], pattern)
            except MisfitError as problem:
                problems.append(str(problem))
                continue
            bodies[function] = bodies.get(function, "") + WRAP[language](number, body, function)
    if problems:
        raise MisfitError("\n".join(problems))
    changed = {function.file: texts[function.file] for function in bodies}
    for function in sorted(bodies, key=lambda function: -function.start):
        text = changed[function.file]
        changed[function.file] = text[: function.start] + bodies[function] + text[function.start :]
    return changed
