"""The recipes of docs/plug-ins.md are the programs of examples/plugins."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = "examples/plugins"
MOST_LINES = 40


def test_each_example_is_short_and_in_the_guide(root: Path) -> None:
    guide = (root / "docs/plug-ins.md").read_text(encoding="utf-8")
    programs = sorted((root / EXAMPLES).glob("*.py"))
    assert len(programs) == 6
    for program in programs:
        text = program.read_text(encoding="utf-8")
        assert f"```python\n{text}```" in guide, program.name
        assert text.count("\n") <= MOST_LINES, program.name
