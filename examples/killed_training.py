"""For tests of the training examples: kills one again and again, each time a little later behind a checkpoint of its own."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def kill(example: Any, folder: Path, steps: int, times: int) -> None:
    """Runs the example as a program and kills it, so many times. One run at least must have been killed before it ended."""
    program = [sys.executable, example.__file__, str(folder), str(steps)]
    killed = 0
    for turn in range(times):
        with subprocess.Popen(program, stdout=subprocess.DEVNULL) as child:
            before = example.newest(folder)
            while child.poll() is None and example.newest(folder) == before:
                time.sleep(0.001)
            time.sleep(0.01 * turn)
            child.kill()
        killed += child.returncode == -signal.SIGKILL
    assert killed > 0
