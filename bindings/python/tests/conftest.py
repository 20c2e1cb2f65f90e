from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mmsb
import pytest
from mmsb import ticket
from mmsb._ffi import KINDS, find_library

SOURCE = Path(mmsb.__file__).resolve().parents[1]

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def live_objects() -> dict[str, int]:
    gc.collect()
    ticket.sweep()
    return {kind: mmsb.debug_live_objects(kind) for kind in KINDS}


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    before = live_objects()
    yield
    assert live_objects() == before


@pytest.fixture
def ctx() -> Iterator[mmsb.Context]:
    with mmsb.Context() as context:
        yield context


@pytest.fixture
def run_python() -> RunPython:
    """Runs a program in a fresh interpreter and gives what became of it."""

    def run(program: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {**os.environ, "PYTHONPATH": str(SOURCE), "MMSB_LIBRARY": find_library(), **environment}
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-W", "error", "-c", program],
            env=settings,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
