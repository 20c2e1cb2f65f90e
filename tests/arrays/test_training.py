"""examples/checkpoint_training_jax.py, killed again and again, ends with the bits of a run that nothing disturbed."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = 500


def test_a_killed_training_goes_on_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    import checkpoint_training_jax as example
    import killed_training

    wanted = example.main(tmp_path / "whole", STEPS)
    assert example.error(wanted["weights"], jax.numpy.ones((1, example.BITS))) < 0.05
    folder = tmp_path / "killed"
    killed_training.kill(example, folder, STEPS, 3)
    capsys.readouterr()
    found = example.main(folder, STEPS)
    assert "goes on behind step" in capsys.readouterr().out
    assert found["step"] == STEPS
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
