"""examples/checkpoint_training_jax.py, killed again and again, ends with the bits of a run that nothing disturbed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
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

    wanted = example.main(tmp_path / "whole", STEPS)
    assert example.error(wanted["weights"], jax.numpy.ones((1, example.BITS))) < 0.05
    folder = tmp_path / "killed"
    killed = 0
    for turn in range(3):
        program = [sys.executable, example.__file__, str(folder), str(STEPS)]
        with subprocess.Popen(program, stdout=subprocess.DEVNULL) as child:
            before = example.newest(folder)
            while child.poll() is None and example.newest(folder) == before:
                time.sleep(0.001)
            time.sleep(0.01 * turn)
            child.kill()
        killed += child.returncode == -signal.SIGKILL
    assert killed > 0
    capsys.readouterr()
    found = example.main(folder, STEPS)
    assert "goes on behind step" in capsys.readouterr().out
    assert found["step"] == STEPS
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
