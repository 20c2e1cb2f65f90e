"""Checkpoints of torch.distributed.checkpoint (DCP) as snapshots: a program of DCP changes by one argument.

    import torch.distributed.checkpoint as checkpoint
    from mmsb.state import dcp

    checkpoint.save(state, storage_writer=dcp.Writer("step-100"))
    checkpoint.load(state, storage_reader=dcp.Reader("step-100"))

It needs PyTorch 2.6 or newer, which nothing else of this package imports. docs/interchange.md has the layout of the files.
"""

from __future__ import annotations

import copy
import io
import math
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.distributed.checkpoint import metadata as kinds
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.staging import AsyncStager
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from .._errors import CorruptError, FormatError, InvalidArgumentError, MMSBError, UnsupportedError
from ..snapshot import AnyPath
from .arrays import Array
from .checkpoint import arrays, load, save
from .pages import StoredArray
from .tree import join, segment, take_apart

__all__ = ["Reader", "Writer"]

INDEX = "index.mmsb"
VERSION_KEY, VERSION = "mmsb.state.dcp/version", 1
_RANK_FILE = re.compile(r"rank-[0-9]{1,9}-[0-9a-f]{16}\.mmsb")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.ndarray)
_TYPES = {name: kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)}
_SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class _Place(NamedTuple):
    """Where a chunk of a tensor lies: a file of the folder, and a name in it."""

    file: str
    name: str


def _folder(path: AnyPath | None) -> Path:
    if path is None:
        raise InvalidArgumentError("no path: the object was made without one, and no checkpoint_id was given")
    return Path(os.fsdecode(path))


def _is_folder(path: AnyPath) -> bool:
    return "://" not in os.fsdecode(path)


# -------------------------------------------------------------------------------------------------------------- saving


class Writer(StorageWriter, AsyncStager):
    """storage_writer of save() and async_save(): each rank writes its tensors to a snapshot of its own, and the coordinator
    writes the index of all, by which the checkpoint is there.

    - path: the folder, on a file system that all ranks share. None: DCP's checkpoint_id
    - compression, durable: as for mmsb.state.save()

    Until the index takes its name, the folder has the checkpoint that it had; then the files of that go. One save at a time
    writes into a folder. Values that are no tensors are saved as mmsb.state saves them: None, bool, int, float, complex, str,
    bytes and NumPy's, and lists, tuples and dicts of these. UnsupportedError has the names of all others: nothing is pickled into
    a file. A rank's tensors of devices are in host memory, all at once, while they are written. async_save() copies all tensors
    before it returns, as with DCP's own writer.
    """

    def __init__(self, path: AnyPath | None = None, *, compression: str | None = None, durable: bool = True) -> None:
        self._path = path
        self._compression = compression
        self._durable = durable
        self._rank = 0

    should_synchronize_after_execute = False

    def stage(self, state_dict: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Called by async_save(): copies in host memory of all tensors and values."""
        copies: dict[int, Any] = {}
        return {name: _copied(value, copies) for name, value in state_dict.items()}

    def synchronize_staging(self) -> None:
        """Called by async_save(): stage() has waited."""

    def close(self) -> None:
        """Called by who ends a stager: there is nothing to end."""

    def reset(self, checkpoint_id: AnyPath | None = None) -> None:
        """Called by DCP: a save begins. checkpoint_id: the folder, instead of the one that this object has."""
        if checkpoint_id is not None:
            self._path = checkpoint_id

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called by DCP. UnsupportedError: use_collectives=False, by which each rank would have an index of its own."""
        if not kwargs.get("use_collectives", True):
            raise UnsupportedError("use_collectives=False: a checkpoint has one index, which needs what all ranks wrote")
        self._rank = kwargs.get("rank", 0)
        _folder(self._path).mkdir(parents=True, exist_ok=True)

    def prepare_local_plan(self, plan: Any) -> Any:
        """Called by DCP: the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        """Called by DCP: the plans as they are."""
        return plans

    def write_data(self, plan: Any, planner: Any) -> Future[list[Any]]:
        """Called by DCP: saves this rank's tensors, and checks its values, which the index has."""
        tree: dict[str, Any] = {}
        results, refused = [], []
        file = f"rank-{self._rank}-{secrets.token_hex(8)}.mmsb"
        for item in plan.items:
            name = item.index.fqn
            if item.type is WriteItemType.BYTE_IO:
                try:
                    results.append(WriteResult(item.index, 0, _value(planner, item.index)))
                except MMSBError as error:
                    refused.append(f"{name}: {error}")
                continue
            tensor = planner.resolve_data(item).detach()
            chunk = item.tensor_data.chunk
            part = None if chunk.sizes == item.tensor_data.size else _slices(chunk)
            if part is None:
                tree[name] = tensor
            else:
                tree.setdefault(name, {})[part] = tensor
            place = _Place(file, segment(name) if part is None else join(segment(name), segment(part)))
            results.append(WriteResult(item.index, tensor.nbytes, place))
        if refused:
            raise UnsupportedError(f"{len(refused)} of the state's values cannot be saved: {'; '.join(refused)}")
        if tree:
            save(_folder(self._path) / file, tree, compression=self._compression, durable=self._durable)
        done: Future[list[Any]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        """Called by DCP on the coordinator: writes the index, and removes what an earlier checkpoint of the folder had."""
        written = {result.index: result.storage_data for rank in results for result in rank}
        tensors, values, files = {}, {}, set()
        for name, entry in metadata.state_dict_metadata.items():
            if not isinstance(entry, kinds.TensorStorageMetadata):
                values[name] = written[kinds.MetadataIndex(name)]
                continue
            parts = []
            for chunk in entry.chunks:
                place = written[kinds.MetadataIndex(name, chunk.offsets)]
                files.add(place.file)
                parts.append((tuple(chunk.offsets), tuple(chunk.sizes), tuple(place)))
            dtype = str(entry.properties.dtype).removeprefix("torch.")
            tensors[name] = {"dtype": dtype, "shape": tuple(entry.size), "parts": parts}
        index = {VERSION_KEY: VERSION, "tensors": tensors, "values": values, "planner": metadata.planner_data}
        folder = _folder(self._path)
        save(folder / INDEX, index, durable=self._durable)
        for file in folder.iterdir():
            if _RANK_FILE.fullmatch(file.name) and file.name not in files:
                file.unlink()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: AnyPath) -> bool:
        """Whether it can be a folder: it is no URL."""
        return _is_folder(checkpoint_id)


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """A copy of a state; a tensor that stands in it twice is copied once. DCP's own stagers cannot copy a DTensor of the host."""
    if isinstance(value, torch.Tensor):
        if id(value) not in copies:
            copies[id(value)] = value.detach().to("cpu", copy=True)
        return copies[id(value)]
    if isinstance(value, Mapping):
        return {key: _copied(inner, copies) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(inner, copies) for inner in value)
    return copy.deepcopy(value)


def _slices(chunk: Any) -> str:
    return f"[{','.join(f'{begin}:{begin + size}' for begin, size in zip(chunk.offsets, chunk.sizes))}]"


def _value(planner: Any, index: Any) -> Any:
    """A value that is no tensor, before the planner pickles it."""
    if not hasattr(planner, "lookup_object"):
        raise UnsupportedError(f"{type(planner).__name__} gives it pickled only: a planner with lookup_object() is needed")
    value = planner.lookup_object(index)
    _check_plain(value)
    take_apart(value)
    return value


def _check_plain(value: Any) -> None:
    """Raises UnsupportedError where a value would come back as another type."""
    if type(value) in (list, tuple):
        for inner in value:
            _check_plain(inner)
    elif type(value) is dict:
        for inner in value.values():
            _check_plain(inner)
    elif type(value) not in _PLAIN and not isinstance(value, np.generic):
        raise UnsupportedError(f"a {type(value).__name__} would have to be pickled")


# ------------------------------------------------------------------------------------------------------------- loading


class Reader(StorageReader):
    """storage_reader of load(): any number of ranks reads what any number has written, each only the pages that it needs.

    - path: the folder. None: DCP's checkpoint_id

    Nothing of a file is unpickled: a value is read by mmsb.state, and pickled in memory for the planner, which expects that. Each
    page is verified before its bytes reach a tensor. CorruptError: a file is damaged, or the files do not fit each other.
    No other process may truncate the files meanwhile.
    """

    def __init__(self, path: AnyPath | None = None) -> None:
        self._path = path
        self.reset()

    def reset(self, checkpoint_id: AnyPath | None = None) -> None:
        """Called by DCP: a load begins. checkpoint_id: the folder, instead of the one that this object has."""
        if checkpoint_id is not None:
            self._path = checkpoint_id
        self._values: dict[str, Any] = {}
        self._places: dict[Any, tuple[_Place, tuple[int, ...]]] = {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        """Called by DCP: the index."""
        path = _folder(self._path) / INDEX
        index = load(path)
        if not isinstance(index, dict) or VERSION_KEY not in index:
            raise FormatError(f"{path} is no index of a checkpoint: it has no {VERSION_KEY}")
        if type(index[VERSION_KEY]) is not int or index[VERSION_KEY] != VERSION:
            raise FormatError(f"{path} has version {str(index[VERSION_KEY])[:50]}; this release reads version {VERSION}")
        try:
            self._values = dict(index["values"])
            self._places = {}
            said: dict[str, Any] = {name: self._tensor(name, entry) for name, entry in index["tensors"].items()}
            said |= {name: kinds.BytesStorageMetadata() for name in self._values}
            planner = index["planner"]
            if planner is not None and not all(_is_path(name, way) for name, way in planner.items()):
                raise ValueError("the planner's names are no paths")
        except MMSBError:
            raise
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise CorruptError(f"{path} is damaged: {type(error).__name__} {str(error)[:200]}") from None
        return kinds.Metadata(said, planner_data=planner, storage_data=self._places)

    def _tensor(self, name: str, entry: Any) -> Any:
        dtype, shape = _TYPES[entry["dtype"]], _sizes(entry["shape"])
        if not isinstance(name, str):
            raise ValueError(f"{str(name)[:200]} is no name")
        chunks, items = [], 0
        for offsets, sizes, place in entry["parts"]:
            offsets, sizes, place = _sizes(offsets), _sizes(sizes), _Place(*place)
            inside = len(offsets) == len(sizes) == len(shape) and all(a + b <= c for a, b, c in zip(offsets, sizes, shape))
            if not inside or not _RANK_FILE.fullmatch(place.file) or not isinstance(place.name, str):
                raise ValueError(f"{name[:200]} of shape {shape} has the part {sizes} at {offsets} in {place}")
            self._places[kinds.MetadataIndex(name, offsets)] = (place, sizes)
            chunks.append(kinds.ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)))
            items += math.prod(sizes)
        if items != math.prod(shape):
            raise ValueError(f"{name[:200]} has {math.prod(shape)} items, and its parts have {items}")
        return kinds.TensorStorageMetadata(kinds.TensorProperties(dtype), torch.Size(shape), chunks)

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called by DCP."""

    def prepare_local_plan(self, plan: Any) -> Any:
        """Called by DCP: the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        """Called by DCP: the plans as they are."""
        return plans

    def read_data(self, plan: Any, planner: Any) -> Future[None]:
        """Called by DCP: fills this rank's tensors, and hands its values to the planner."""
        stored = self._stored(plan)
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                data = io.BytesIO()
                torch.save(self._values[item.storage_index.fqn], data)
                data.seek(0)
                planner.load_bytes(item, data)
                continue
            target = planner.resolve_tensor(item).detach()
            place = self._places[item.storage_index][0]
            part = tuple(slice(begin, begin + size) for begin, size in zip(item.storage_offsets, item.lengths))
            _fill(target, stored[place], part)
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _stored(self, plan: Any) -> dict[_Place, StoredArray]:
        """The arrays that a plan needs, not read. CorruptError: one is not there, or has another shape."""
        files: dict[str, dict[str, StoredArray]] = {}
        found = {}
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                continue
            place, sizes = self._places[item.storage_index]
            path = _folder(self._path) / place.file
            if place.file not in files:
                files[place.file] = arrays(path)
            array = files[place.file].get(place.name)
            if array is None or array.shape != sizes:
                has = "nothing" if array is None else f"the shape {array.shape}"
                raise CorruptError(f"{path}: {place.name} has {has}, and the index says {sizes}")
            found[place] = array
        return found

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: AnyPath) -> bool:
        """Whether it can be a folder: it is no URL."""
        return _is_folder(checkpoint_id)


def _sizes(numbers: Any) -> tuple[int, ...]:
    found = tuple(numbers)
    if len(found) > 64 or any(type(number) is not int or not 0 <= number < 2**63 for number in found):
        raise ValueError(f"{str(found)[:200]} are no sizes")
    return found


def _is_path(name: Any, way: Any) -> bool:
    return isinstance(name, str) and type(way) is tuple and all(type(part) in (str, int) for part in way)


def _fill(target: Any, array: StoredArray, part: tuple[slice, ...]) -> None:
    """Copies a part of a stored array into a tensor; another type or device is PyTorch's to convert."""
    dtype = _TYPES.get(array.type_name)
    if dtype is None:
        raise CorruptError(f"{array.name} has the type {array.type_name}, which PyTorch does not have")
    where: Any = (*part, ...)  # a view also where there are no dimensions
    source = array._bytes()[where]
    if tuple(target.shape) != source.shape:
        raise InvalidArgumentError(f"{array.name}: the planner's tensor has the shape {tuple(target.shape)}, not {source.shape}")
    direct = target.dtype == dtype and target.device.type == "cpu"
    host = target if direct else torch.empty(source.shape, dtype=dtype)
    _bits(host)[...] = source
    if not direct:
        target.copy_(host)


def _bits(tensor: Any) -> Array:
    """A tensor of the host, of any strides and type, as NumPy's items of bytes."""
    array: Array = (tensor.view(_SAME_SIZE[tensor.itemsize]) if tensor.itemsize in _SAME_SIZE else tensor).numpy()
    return array.view(np.dtype((np.void, tensor.itemsize)))
