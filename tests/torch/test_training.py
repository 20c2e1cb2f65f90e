"""examples/checkpoint_training_torch.py, killed again and again, ends with the bits of a run that nothing disturbed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_tensors import same

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = 500


def test_a_killed_training_goes_on_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    import checkpoint_training_torch as example

    wanted = example.main(tmp_path / "whole", STEPS)
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
    same(found["model"].state_dict(), wanted["model"].state_dict())
    same(found["optimizer"].state_dict(), wanted["optimizer"].state_dict())
