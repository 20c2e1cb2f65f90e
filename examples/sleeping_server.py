"""An inference server that leaves its device to others while it has no requests: weights and cache sleep, and wake.

Weights are kept on the host. Of the cache only the memory is wanted, so it is dropped. No pointer changes: what was captured or
compiled with the addresses of blocks runs on after the wake. Without a GPU the device is simulated.
"""

from __future__ import annotations

import mmsb

MIB = 1 << 20
LAYERS, LAYER_BYTES, CACHE_BYTES = 4, 8 * MIB, 24 * MIB


class Server:
    """Layers of weights and a cache, in the memory of one device."""

    def __init__(self, runtime: mmsb.Runtime) -> None:
        self.runtime = runtime
        runtime.partition("weights", "cache")  # before their blocks: these get segments of their own
        self.stream = runtime.stream()
        self.weights = [self.stream.allocate(LAYER_BYTES, tag="weights") for _ in range(LAYERS)]
        self.cache = self.stream.allocate(CACHE_BYTES, tag="cache")
        for number, layer in enumerate(self.weights):
            self.stream.write(layer, bytes([number + 1]) * LAYER_BYTES)

    def answer(self) -> int:
        """Stands for a step of the model: it reads each layer, and writes the cache."""
        with self.stream.use((self.cache, "write")):
            self.stream.fill(self.cache, 1)
        return sum(self.stream.read(layer, 1)[0] for layer in self.weights)

    def sleep(self) -> None:
        """Gives the device back; it waits for the requests that run."""
        self.runtime.sleep("weights")
        self.runtime.sleep("cache", keep=False)

    def wake(self) -> None:
        """Takes the device again, with all weights, or fails and still sleeps."""
        self.runtime.wake("weights", "cache")


def main() -> None:
    with mmsb.Context(simulate="if-no-gpu", simulated_memory=64 * MIB) as context, context.create_runtime(pool="") as runtime:
        server = Server(runtime)
        first = server.answer()
        server.sleep()
        stats = runtime.stats()
        print(f"asleep: {stats.sleeping // MIB} MiB are the device's again, {stats.sleeping_kept // MIB} MiB are on the host")
        server.wake()
        print(f"awake: answers {first} before and {server.answer()} after, from the same addresses")


if __name__ == "__main__":
    main()
