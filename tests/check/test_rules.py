"""The rules of the C boundary and of the tree that no compiler checks. Each has a twin that plants the mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

# Types whose size or layout C and Go may see differently, or that only Go has.
GO_ONLY_TYPE = re.compile(r"(?<![\w.])(?:int|uint|uintptr|string|bool|error|any|chan|map|func|interface)\b|\[\]")

# What a library may not do to the program it is loaded into.
FORBIDDEN = re.compile(r"\b(?:log\.Fatal\w*|os\.Exit|signal\.Notify|fmt\.Print\w*|println|print)\(|SetFinalizer\(")

GO_STATEMENT = re.compile(r"^\s*go\s+[\w(]", re.MULTILINE)

EXPORT = re.compile(r"^//export (\w+)\nfunc (\w+)\(([^)]*)\)([^\n{]*)\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def export_faults(text: str) -> list[str]:
    faults = []
    exports = EXPORT.findall(text)
    if len(exports) != len(re.findall(r"^//export ", text, re.MULTILINE)):
        faults.append("an //export that is not directly above a function")
    for name, function, parameters, result, body in exports:
        if name != function or not name.startswith("mmsbgo_"):
            faults.append(f"{name}: exports are named mmsbgo_*, like their function")
        if GO_ONLY_TYPE.search(parameters) or GO_ONLY_TYPE.search(result):
            faults.append(f"{name}: only fixed-width and C types cross: ({parameters}){result}")
        if "," in result:
            faults.append(f"{name}: two results")
        if "defer guard(" not in body:
            faults.append(f"{name}: no defer guard(")
    return faults


def go_sources(files: Iterable[Path], root: Path, *rooms: str) -> list[Path]:
    return [
        file
        for file in files
        if file.suffix == ".go" and not file.name.endswith("_test.go") and file.relative_to(root).parts[0] in rooms
    ]


def test_exports_carry_fixed_types_and_a_guard(files: list[Path], root: Path) -> None:
    sources = {file.name: file.read_text(encoding="utf-8") for file in go_sources(files, root, "capi")}
    assert any("//export " in text for text in sources.values())
    assert {name: faults for name, text in sources.items() if (faults := export_faults(text))} == {}


def test_planted_export_faults_are_caught() -> None:
    good = "//export mmsbgo_a\nfunc mmsbgo_a(x C.int32_t) (rc C.int32_t) {\n\tdefer guard(&rc)\n\treturn x\n}\n"
    assert export_faults(good) == []
    assert export_faults(good.replace("x C.int32_t", "x int")) != []
    assert export_faults(good.replace("x C.int32_t", "x []byte")) != []
    assert export_faults(good.replace("\tdefer guard(&rc)\n", "")) != []
    assert export_faults(good.replace("(rc C.int32_t)", "(rc C.int32_t, n C.size_t)")) != []
    assert export_faults(good.replace("mmsbgo_a", "mmsb_a")) != []


def test_the_library_neither_prints_nor_exits_nor_takes_signals(files: list[Path], root: Path) -> None:
    rooms = ("core", "capi", "native", "gpu", "nccl", "transfer")
    found = {}
    for file in go_sources(files, root, *rooms):
        if lines := FORBIDDEN.findall(without_comments(file.read_text(encoding="utf-8"))):
            found[str(file.relative_to(root))] = lines
    assert found == {}
    assert FORBIDDEN.search('fmt.Println("x")') and FORBIDDEN.search("os.Exit(1)")
    assert not FORBIDDEN.search("fmt.Fprintln(w)")


def test_goroutines_start_only_in_safego(files: list[Path], root: Path) -> None:
    sources = go_sources(files, root, "core", "capi", "native", "gpu", "nccl", "transfer")
    starting = {
        str(file.relative_to(root)) for file in sources if GO_STATEMENT.search(without_comments(file.read_text(encoding="utf-8")))
    }
    assert {name for name in starting if not name.startswith("core/safego/")} == set()
    assert GO_STATEMENT.search("\tgo func() {") and GO_STATEMENT.search("\tgo run(x)")


def test_no_c_file_of_the_library_has_a_main(root: Path) -> None:
    """cgo compiles every .c file of a package folder into the library."""
    sources = [*root.glob("capi/*.c"), *root.glob("native/*.c")]
    assert sources
    main = re.compile(r"\bint\s+main\s*\(")
    assert [str(file.relative_to(root)) for file in sources if main.search(file.read_text(encoding="utf-8"))] == []
    assert main.search("int main(void) {")


LAST_COLUMN = 130
LIMITED = {".go", ".c", ".h", ".cpp", ".hpp", ".cu", ".py", ".jl", ".sh"}

# The quickstart keeps the bytes it came with.
LONG_LINES = ("examples/quickstart.c",)


def long_lines(text: str) -> list[int]:
    """The numbers of lines that pass the last column; a tab is as wide as four spaces."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line.expandtabs(4)) > LAST_COLUMN]


def test_lines_end_at_the_last_column(files: list[Path], root: Path) -> None:
    found = {}
    for file in files:
        name = file.relative_to(root)
        if (file.suffix not in LIMITED and file.name != "Makefile") or any(name.is_relative_to(room) for room in LONG_LINES):
            continue
        if numbers := long_lines(file.read_text(encoding="utf-8")):
            found[str(name)] = numbers
    assert found == {}
    assert long_lines("x" * LAST_COLUMN + "\n\t" + "x" * (LAST_COLUMN - 3)) == [2]


def test_the_tree_names_no_place_outside_itself(files: list[Path], root: Path) -> None:
    """Paths of one machine, or of the folder that lies beside one checkout, mean nothing in another."""
    home = rb"(?<![\w.$}])/(?:work|home|root|Users)/\w"
    outside = re.compile(rb"\.\./" rb"shared\b|" + home)
    found = {str(file.relative_to(root)) for file in files if outside.search(file.read_bytes())}
    assert found == set()
    assert outside.search(b"see ../" + b"shared/spec") and outside.search(b'"/ho' + b'me/someone/x"')


def broken_links(file: Path, text: str) -> list[str]:
    """Links of a document to files of the tree, and to their headings, that lead nowhere."""
    broken = []
    for target, heading in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
        to = file.parent / target
        if not to.exists() or (heading and heading not in headings(to.read_text(encoding="utf-8") if target else text)):
            broken.append(f"{target}#{heading}")
    return broken


def headings(text: str) -> set[str]:
    """What links call the headings of a document."""
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_links_of_documents_lead_to_files_and_headings(files: list[Path]) -> None:
    documents = {file: file.read_text(encoding="utf-8") for file in files if file.suffix == ".md"}
    assert {file: broken for file, text in documents.items() if (broken := broken_links(file, text))} == {}


def test_planted_links_to_nowhere_are_caught(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Here, too\n", encoding="utf-8")
    document = tmp_path / "a.md"
    assert broken_links(document, "# A\n[x](other.md) [x](other.md#here-too) [x](#a) [x](https://example.org/#b)") == []
    assert broken_links(document, "[x](gone.md)") == ["gone.md#"]
    assert broken_links(document, "[x](other.md#gone)") == ["other.md#gone"]
    assert broken_links(document, "# A\n[x](#b)") == ["#b"]
