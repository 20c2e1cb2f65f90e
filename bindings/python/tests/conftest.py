from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import mmsb
import pytest
from mmsb import ticket
from mmsb._abi import KIND
from mmsb._ffi import SIMULATIONS, find_library

# Seconds for what must come. Only what hangs is ended by it: a loaded machine stops a program for seconds.
PATIENCE = 3 if os.environ.get("MMSB_TEST_GPU") else 600

# Where MMSB_TEST_GPU is set, tests that ask for simulated devices get this machine's GPUs.
if os.environ.get("MMSB_TEST_GPU"):
    SIMULATIONS["always"] = SIMULATIONS["off"]

SOURCE = Path(mmsb.__file__).resolve().parents[1]

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def runs_out_of_time(call: Callable[[float], object], undo: Callable[[Any], object]) -> None:
    """A call with a timeout of 1 ns fails with TimeoutError. A machine that stops the thread which tells the time may let the
    work end before, as the contract allows: it is undone then, and tried again."""
    for _ in range(20):
        try:
            done = call(1e-9)
        except mmsb.TimeoutError:
            return
        undo(done)
    pytest.fail("20 calls with a timeout of 1 ns did all of their work")


def live_objects() -> dict[str, int]:
    gc.collect()
    ticket.sweep()
    return {kind: mmsb.debug_live_objects(kind) for kind in KIND}


# What has leaked stays: the tests after it do not wait for it again.
leaked: list[dict[str, int]] = []
failed: set[str] = set()


def pytest_collection_finish() -> None:
    """What is imported stays: the collector, which runs twice around each test, need not walk it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        failed.add(item.nodeid)
    return report


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    before = live_objects()
    yield
    if request.node.nodeid in failed:  # its exception keeps the frames, and what they have
        return
    # Work whose ticket was dropped may take a while to end.
    end = time.monotonic() + (0 if leaked else PATIENCE)
    while (left := live_objects()) != before and time.monotonic() < end:
        time.sleep(0.01)
    if left != before:
        leaked.append(left)
    assert left == before


@pytest.fixture
def ctx() -> Iterator[mmsb.Context]:
    with mmsb.Context() as context:
        yield context


@pytest.fixture
def run_python() -> RunPython:
    """Runs a program in a fresh interpreter and gives what became of it."""

    def run(program: str, timeout: float = PATIENCE, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {**os.environ, "PYTHONPATH": str(SOURCE), "MMSB_LIBRARY": find_library(), **environment}
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-W", "error", "-c", program],
            env=settings,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
