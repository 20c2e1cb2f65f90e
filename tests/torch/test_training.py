"""examples/checkpoint_training_torch.py, killed again and again, ends with the bits of a run that nothing disturbed."""

from __future__ import annotations

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
    import killed_training

    wanted = example.main(tmp_path / "whole", STEPS)
    folder = tmp_path / "killed"
    killed_training.kill(example, folder, STEPS, 3)
    capsys.readouterr()
    found = example.main(folder, STEPS)
    assert "goes on behind step" in capsys.readouterr().out
    assert found["step"] == STEPS
    same(found["model"].state_dict(), wanted["model"].state_dict())
    same(found["optimizer"].state_dict(), wanted["optimizer"].state_dict())
