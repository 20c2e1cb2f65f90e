"""A rank of a test of torch.distributed.checkpoint: ranks.py RANK RANKS PORT TASK FOLDER."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from mmsb.state import dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

TYPES = [torch.float32, torch.bfloat16, torch.complex128, torch.bool, torch.float8_e4m3fn]


def full(dtype: torch.dtype, turn: int) -> torch.Tensor:
    return ((torch.arange(12 * 10).reshape(12, 10) + turn) % 7).to(dtype)


def share(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """The part of a tensor that this rank has; gloo cannot send all types."""
    return tensor.chunk(dist.get_world_size(), axis)[dist.get_rank()].contiguous()


def state(axis: int, turn: int | None) -> dict[str, Any]:
    """A state with the numbers of a turn; None: with zeros, to be loaded."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    tensors: dict[str, Any] = {}
    for dtype in TYPES:
        tensor = torch.zeros(12, 10).to(dtype) if turn is None else full(dtype, turn)
        tensors[str(dtype)] = DTensor.from_local(share(tensor, axis), mesh, [Shard(axis)])
    same = torch.zeros(5) if turn is None else torch.arange(5.0) + turn
    tensors["replicated"] = DTensor.from_local(same, mesh, [Replicate()])
    return {"model": tensors, "step": turn, "betas": (0.9, 0.999), "rank-free": {"name": "a/b", "none": None}}


def check(found: dict[str, Any], axis: int, turn: int) -> None:
    for dtype in TYPES:
        local, wanted = found["model"][str(dtype)].to_local(), share(full(dtype, turn), axis)
        assert local.dtype == dtype and torch.equal(local.to(torch.complex128), wanted.to(torch.complex128)), dtype
    assert torch.equal(found["model"]["replicated"].to_local(), torch.arange(5.0) + turn)
    assert (found["step"], found["betas"], found["rank-free"]) == (turn, (0.9, 0.999), {"name": "a/b", "none": None})


def main(task: str, folder: Path) -> None:
    if task == "save":
        checkpoint.save(state(0, 1), storage_writer=dcp.Writer(folder))
    elif task == "save-async":
        saved = state(0, 2)
        future = checkpoint.async_save(saved, storage_writer=dcp.Writer(folder))
        for tensor in saved["model"].values():
            tensor.to_local().zero_()  # the loop goes on
        future.result()
    elif task == "refuse":
        try:
            checkpoint.save({"own": object(), **state(0, 3)}, storage_writer=dcp.Writer(folder))
        except checkpoint.CheckpointException as error:
            assert "own: a object would have to be pickled" in str(error)
            return
        raise AssertionError("an object was saved")
    else:
        turn, axis = map(int, task.removeprefix("load").split("-"))
        found = state(axis, None)
        checkpoint.load(found, storage_reader=dcp.Reader(folder))
        check(found, axis, turn)


if __name__ == "__main__":
    number, count, port, work, place = sys.argv[1:]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=int(number), world_size=int(count))
    try:
        main(work, Path(place))
    finally:
        dist.destroy_process_group()
