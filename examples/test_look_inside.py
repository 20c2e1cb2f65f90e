"""Checkpoints of somebody else."""

from __future__ import annotations

from pathlib import Path

import look_inside
import numpy as np
import pytest
from mmsb import state


def test_a_checkpoint_tells_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = {
        "layers": [{"w": np.arange(6.0).reshape(2, 3), "b": np.array([1, -2], "int8")}],
        "flags": np.zeros(0, bool), "names": np.array(["a", "b"]), "broken": np.array([np.nan]), "step": 7,
    }  # fmt: skip
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    state.save(one, tree)
    assert look_inside.main([one]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{one}: 5 arrays of 66 bytes, 1 scalars"
    assert "  layers/0/w  float64  (2, 3)  0 … 2.5 … 5" in lines
    assert "  layers/0/b  int8  (2,)  -2 … -0.5 … 1" in lines
    assert "  flags  bool  (0,)" in lines
    assert "  broken  float64  (1,)  nan … nan … nan  not finite" in lines
    assert "  step  7" in lines

    tree["layers"][0]["w"][1, 1] += 1  # type: ignore[index]
    tree["step"], tree["new"] = 8, np.ones(2, "float32")
    del tree["flags"]
    state.save(two, tree)
    assert look_inside.main([one, two]) == 1
    assert capsys.readouterr().out.splitlines()[-6:] == [
        "  broken  1 of 1 items differ",
        f"  flags  only in {one}",
        "  layers/0/w  1 of 6 items differ",
        f"  new  only in {two}",
        "  step  7 is 8",
        "5 of 7 names differ",
    ]
    assert look_inside.main([one, one]) == 1  # NaN differs from itself


def test_what_is_no_checkpoint_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"pickle or not")
    assert look_inside.main([str(path)]) == 2
    assert "is not a snapshot" in capsys.readouterr().err
    assert look_inside.main([str(tmp_path / "none")]) == 2
