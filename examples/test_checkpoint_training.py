"""The training loop that is killed and goes on."""

from __future__ import annotations

from pathlib import Path

import checkpoint_training
import killed_training
import mmsb
import pytest
from mmsb import state

STEPS = 1500


def test_a_killed_training_goes_on_bit_for_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = checkpoint_training.main(tmp_path / "whole", STEPS)
    folder = tmp_path / "killed"
    killed_training.kill(checkpoint_training, folder, STEPS, 6)
    capsys.readouterr()
    assert checkpoint_training.main(folder, STEPS) == wanted
    assert "goes on behind step" in capsys.readouterr().out
    ended = [checkpoint_training.newest(place) for place in (tmp_path / "whole", folder)]
    assert ended[0] is not None and ended[1] is not None
    one, other = (state.load(path) for path in ended)
    assert {name: array.tobytes() for name, array in one["weights"].items()} == {
        name: array.tobytes() for name, array in other["weights"].items()
    }
    mmsb.verify(ended[1])


def test_each_save_has_the_state_between_two_steps(tmp_path: Path) -> None:
    checkpoint_training.main(tmp_path, 400)
    tree = checkpoint_training.begin()
    with state.track(tree) as tracker:
        for path in sorted(tmp_path.glob("*.mmsb"), key=lambda path: int(path.stem)):
            saved = state.load(path)
            assert saved["step"] >= int(path.stem)
            while tree["step"] < saved["step"]:
                checkpoint_training.train(tree, tracker.context)
            for name, array in saved["weights"].items():
                assert array.tobytes() == tree["weights"][name].tobytes()
