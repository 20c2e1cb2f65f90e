"""The server that sleeps."""

from __future__ import annotations

import mmsb
import pytest
import sleeping_server
from sleeping_server import CACHE_BYTES, LAYER_BYTES, LAYERS, MIB, Server


def test_it_answers_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    sleeping_server.main()
    assert capsys.readouterr().out.splitlines() == [
        "asleep: 64 MiB are the device's again, 32 MiB are on the host",
        "awake: answers 10 before and 10 after, from the same addresses",
    ]


def test_another_model_has_the_device_meanwhile() -> None:
    simulated = mmsb.Context(simulate="always", simulated_devices=1, simulated_memory=64 * MIB)
    with simulated as context, context.create_runtime(pool="") as runtime:
        server = Server(runtime)
        addresses = [layer.address for layer in server.weights]
        server.sleep()
        with pytest.raises(mmsb.InvalidStateError, match="sleeps"):
            server.answer()
        other = server.stream.allocate(LAYERS * LAYER_BYTES + CACHE_BYTES)
        with pytest.raises(mmsb.OutOfMemoryError):
            server.wake()
        other.free()
        server.wake()
        assert server.answer() == 10
        assert [layer.address for layer in server.weights] == addresses
        assert runtime.stats().sleeping_copied == 2 * LAYERS * LAYER_BYTES  # each byte once, each way
