"""The catalogue of mutants fits the source, and what does not fit is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutations"))

from mutation import MisfitError, Mutant, Planting, plant
from run import SUBJECTS

GO = """package p

func (a *A) f() int { return 1 }

func (b *B) f() {
	if b.x /* or */ == "}" { b.y(`{`) }
	// b.y()
}

func g(xs ...int) (interface{}, error) { return xs[1 : len(xs)], nil }
"""
C = """#define BRACE {
void h(void);
__attribute__((cold)) static int h(int a, const char *b) {
    for (;;) {
#ifdef X
        a += b[0] == '}';
#else
        a++;
#endif
    }
}
void k(void) { h(1, "h("); }
"""
PYTHON = '''
def f(x: int) -> int:
    """Says { '."""
    # { in a comment
    if x // 2 == 1:  # "
        return x

    return -x


class A:
    def f(self) -> None: ...

    def g(self):
        yield "}"
'''
SOURCES = {"Go": GO, "C": C, "Python": PYTHON}


def apply(tmp_path: Path, language: str, *mutants: Mutant) -> str:
    file = tmp_path / "source"
    file.write_text(SOURCES[language], encoding="utf-8")
    return "".join(plant(language, [Planting(1, [file], mutants)]).values())


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_mutant_fits_the_source(subject) -> None:
    plant(subject.language, [Planting(1, subject.files(), subject.mutants)])
    assert len({mutant.name for mutant in subject.mutants}) == len(subject.mutants)


def test_a_mutant_is_found_whatever_its_formatting(tmp_path: Path) -> None:
    text = apply(
        tmp_path, "Go",
        Mutant("one", "", "B.f", 'b.x=="}"', "false"),
        Mutant("two", "", "g", "xs[1:len(xs)]", "xs"),
        Mutant("three", "", "g", "1", "2"),
    )  # fmt: skip
    assert "func (b *B) f() {\nif mmsbMutant == 1 {\n\tif false { b.y(`{`) }\n\t// b.y()\n\nreturn\n}\n" in text
    assert "{\nif mmsbMutant == 2 { return xs, nil \n}\n" in text
    assert "\nif mmsbMutant == 3 { return xs[2 : len(xs)], nil \n}\n return xs[1 " in text
    assert GO.splitlines()[2] in text
    text = apply(tmp_path, "C", Mutant("one", "", "h", "a ++ ;", ""), Mutant("two", "", "k", "h(1,", "h(2,"))
    assert "const char *b) {\nif (mmsb__mutant == 1) {\n    for (;;) {\n#ifdef X" in text
    assert 'void k(void) {\nif (mmsb__mutant == 2) { h(2, "h("); \nreturn;\n}\n h(1, "h("); }' in text


def test_a_mutant_in_python(tmp_path: Path) -> None:
    text = apply(tmp_path, "Python", Mutant("one", "", "f", "x//2==1", "x"), Mutant("two", "", "A.g", '"}"', "0"))
    switch = 'if __import__("os").environ.get("MMSB_MUTANT") == '
    assert f'"""Says {{ \'."""\n    # {{ in a comment\n    {switch}"1":\n        if x:  # "\n            return x\n\n' in text
    assert f'    def g(self):\n        {switch}"2":\n            yield 0\n            return\n        yield "}}"\n' in text
    compile(text, "copy", "exec")


@pytest.mark.parametrize(
    ("language", "function", "find", "complaint"),
    [
        ("Go", "nowhere", "1", "lost: one function nowhere is wanted, there are: none"),
        ("Go", "f", "1", "lost: one function f is wanted, there are: A.f in .*, B.f in .*"),
        ("C", "BRACE", "1", "lost: one function BRACE is wanted, there are: none"),
        ("Go", "A.f", "2", "lost: A.f in .* has 0 times what is to be there once: 2"),
        ("Go", "B.f", "b.y()", "lost: B.f in .* has 0 times"),
        ("Go", "g", "xs", "lost: g in .* has 2 times"),
        ("C", "k", "", "lost: k in .* has [0-9]+ times"),
        ("Python", "A.f", "...", "lost: one function A.f is wanted, there are: none"),
        ("Python", "f", "in a comment", "lost: f in .* has 0 times"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, language: str, function: str, find: str, complaint: str) -> None:
    fits = {
        "Go": Mutant("fits", "", "g", "len", ""),
        "C": Mutant("fits", "", "k", "1", ""),
        "Python": Mutant("fits", "", "g", '"}"', ""),
    }
    with pytest.raises(MisfitError, match=complaint):
        apply(tmp_path, language, fits[language], Mutant("lost", "", function, find, ""))
