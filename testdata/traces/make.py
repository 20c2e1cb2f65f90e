#!/usr/bin/env python3
"""Makes the traces of this folder, and expected.json: what a reader must find in each. See README.md."""

import json
import pathlib
import pickle
import random
from typing import Any

HERE = pathlib.Path(__file__).parent
MIB = 1 << 20


def recording(rng: random.Random) -> list[tuple[str, int, int, int]]:
    """Steps of a program with some weights, on two streams: action, address, bytes, stream."""
    events: list[tuple[str, int, int, int]] = []
    live: list[tuple[int, int, int]] = []
    free: list[int] = [0x7F0000000000 + number * 16 * MIB for number in range(64)]
    for number in range(5):  # weights, which stay
        events.append(("alloc", free.pop(0), (number + 1) * 1_000_003, 0))
    for _ in range(300):
        if live and (rng.random() < 0.45 or not free):
            address, size, stream = live.pop(rng.randrange(len(live)))
            events.append(("free", address, size, stream))
            free.append(address)
        else:
            address = free.pop(rng.randrange(len(free)))
            size = rng.choice([rng.randint(1, 4096), rng.randint(1, MIB), rng.randint(MIB, 8 * MIB)])
            stream = rng.choice([0, 0, 0x5581A0])
            events.append(("alloc", address, size, stream))
            live.append((address, size, stream))
    return events


def expected(events: list[tuple[str, int, int, int]], before: int = 0) -> dict[str, Any]:
    """The events with blocks for addresses, and the most bytes that are live. The first few were not recorded."""
    blocks: dict[int, int] = {}
    streams: dict[int, int] = {}
    for _, _, _, stream in events[before:] + events[:before]:
        streams.setdefault(stream, len(streams))
    found, live, most = [], 0, 0
    count = 0
    for action, address, size, stream in events:
        if action == "alloc":
            blocks[address] = count
            count += 1
        live += size if action == "alloc" else -size
        most = max(most, live)
        found.append([action == "free", blocks[address], size, streams[stream]])
    return {"events": found, "blocks": count, "streams": len(streams), "live": most, "before": before}


def rmm(events: list[tuple[str, int, int, int]]) -> str:
    """The log as RMM's adaptor writes it, with an empty allocation and a failure."""
    lines = ["Thread,Time,Action,Pointer,Size,Stream"]
    for number, (action, address, size, stream) in enumerate(events):
        name = "allocate" if action == "alloc" else "free"
        lines.append(f"4711,10:11:12.{number:06d},{name},0x{address:x},{size},0x{stream:x}")
        if number == 10:
            lines.append("4711,10:11:12.000010,allocate,(nil),0,(nil)")
            lines.append("4711,10:11:12.000010,allocate failure,(nil),99999999999,0x0")
            lines.append("4711,10:11:12.000010,free,(nil),0,(nil)")
    return "\n".join(lines) + "\n"


def snapshot(events: list[tuple[str, int, int, int]], lost: int, reserved: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A snapshot that has lost its first events, and what a reader must find in it."""
    frames = [{"filename": "train.py", "line": number, "name": f"step{number}"} for number in range(5)]
    trace: list[dict[str, Any]] = []
    for number, (action, address, size, stream) in enumerate(events[lost:]):
        common = {
            "addr": address,
            "size": size,
            "stream": stream,
            "time_us": 1_700_000_000_000_000 + number,
            "frames": frames[: number % 5],
            "compile_context": "N/A",
        }
        if action == "alloc":
            trace.append({"action": "alloc", **common})
        else:
            trace.append({"action": "free_requested", **common})
            if number % 7 == 0:
                trace.append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 0})
            trace.append({"action": "free_completed", **common})
        if number == 40:
            trace.append({"action": "oom", "device_free": 12345, "size": 1 << 45, "stream": 0, "time_us": 0})
            trace.append({"action": "segment_free", "addr": 1 << 46, "size": 20 * MIB, "stream": 0, "time_us": 0})
            trace.append({"action": "segment_alloc", "addr": 1 << 46, "size": 4 * MIB, "stream": 0, "time_us": 0})
    at_end: dict[int, tuple[int, int]] = {}
    at_loss: dict[int, tuple[int, int]] = {}
    for number, (action, address, size, stream) in enumerate(events):
        if number == lost:
            at_loss = dict(at_end)
        if action == "alloc":
            at_end[address] = (size, stream)
        else:
            del at_end[address]
    segments = []
    for address, (size, stream) in sorted(at_end.items()):
        rounded = (size + 511) // 512 * 512
        segments.append(
            {
                "device": 0,
                "address": address,
                "total_size": 16 * MIB,
                "allocated_size": rounded,
                "active_size": rounded,
                "requested_size": size,
                "stream": stream,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": [
                    {"address": address, "size": rounded, "requested_size": size, "state": "active_allocated", "frames": []},
                    {
                        "address": address + rounded,
                        "size": 16 * MIB - rounded,
                        "requested_size": 0,
                        "state": "inactive",
                        "frames": [],
                    },
                ],
            }
        )
    earlier = [("alloc", address, size, stream) for address, (size, stream) in sorted(at_loss.items())]
    want = expected(earlier + events[lost:], len(earlier))
    # From the end backwards: 4 MiB came last, 20 MiB went before.
    want["reserved"] = 16 * MIB * len(segments) + reserved
    return {
        "segments": segments,
        "device_traces": [trace, []],
        "allocator_settings": {"expandable_segments": False, "garbage_collection_threshold": 0.0},
        "external_annotations": [],
    }, want


def main() -> None:
    events = recording(random.Random(7))
    wanted: dict[str, Any] = {"rmm.csv": expected(events)}
    wanted["rmm.csv"].update(reserved=0)
    (HERE / "rmm.csv").write_text(rmm(events))
    content, want = snapshot(events, 140, 16 * MIB)
    for protocol in (2, 4, 5):
        name = f"pytorch-protocol{protocol}.pickle"
        (HERE / name).write_bytes(pickle.dumps(content, protocol))
        wanted[name] = want
    (HERE / "expected.json").write_text(json.dumps(wanted) + "\n")


if __name__ == "__main__":
    main()
