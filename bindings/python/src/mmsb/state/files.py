"""Files of others: safetensors and NumPy's .npz, to checkpoints and back."""

from __future__ import annotations

import errno
import json
import mmap
import os
import re
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np

from .._errors import CorruptError, MismatchError, MMSBError, UnsupportedError
from ..snapshot import AnyPath
from . import tree as trees
from .arrays import ML_TYPES, Array, Held, Layout, dense, item_bytes
from .checkpoint import Names, load, save_parts
from .pages import StoredArray
from .tree import is_scalar

npy: Any = np.lib.format
_SURROGATE = re.compile("[\ud800-\udfff]")

# ---------------------------------------------------------------------------------------------------------- safetensors

_LONGEST_HEADER = 100_000_000
_METADATA = "__metadata__"
#: Our names of the types that safetensors has; those of less than a byte are not supported.
_TYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
_CODES = {name: code for code, name in _TYPES.items()}


def import_safetensors(
    source: AnyPath, path: AnyPath, *, compression: str | None = None, durable: bool = True, timeout: float | None = None
) -> None:
    """Makes a checkpoint of a file of safetensors: a dict of its tensors, and of its texts under "__metadata__" if it has some.

    The bytes go from the mapped file to the checkpoint. No other process may truncate the file meanwhile. CorruptError: it is
    damaged. The options are those of save().
    """
    shown = os.fsdecode(source)
    with open(source, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise CorruptError(f"{shown} has {size} bytes; a file of safetensors has at least 8")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    memory = np.frombuffer(mapped, np.uint8)
    texts, tensors, begin = _header(memory, shown)
    parts = trees.take_apart({} if texts is None else {_METADATA: texts})
    rows = parts.document["dict"]
    for name, tensor in tensors.items():
        place = {"page": 0}
        rows.append([name, place])
        item = item_bytes(tensor.dtype)
        layout = Layout(tensor.dtype, tensor.shape, dense(tensor.shape, item), item)
        data = memory[begin + tensor.begin : begin + tensor.end] if layout.nbytes else np.zeros(1, np.uint8)
        parts.arrays[trees.segment(name)] = Held(layout, data, None, False, not layout.nbytes)
        parts.places[trees.segment(name)] = place
    save_parts(path, parts, None, compression, durable, timeout)


class _Tensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _header(memory: Array, shown: str) -> tuple[dict[str, str] | None, dict[str, _Tensor], int]:
    """The texts and tensors of a file of safetensors, and where its data begins. All is checked."""
    length = int.from_bytes(memory[:8].tobytes(), "little")
    room = len(memory) - 8
    if length > _LONGEST_HEADER or length > room:
        raise CorruptError(f"{shown}: its header has {length} bytes; the limit is {min(_LONGEST_HEADER, room)}")
    try:
        said = json.loads(memory[8 : 8 + length].tobytes(), object_pairs_hook=_unique, parse_int=_short)
        if not isinstance(said, dict):
            raise ValueError("it is no object of JSON")
        texts = said.pop(_METADATA, None)
        if texts is not None and not (isinstance(texts, dict) and all(isinstance(text, str) for text in texts.values())):
            raise ValueError(f"{_METADATA} is not a dict of texts")
        tensors = {name: _tensor(name, row) for name, row in said.items()}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(f"{shown}: its header of {length} bytes is damaged: {str(error)[:200]}") from None
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda row: (row[1].begin, row[1].end)):
        if tensor.begin != end:
            raise CorruptError(f"{shown}: {name} begins at {tensor.begin}, and what is before it ends at {end}")
        end = tensor.end
    if end != room - length:
        raise CorruptError(f"{shown}: its tensors end at {end}, and it has {room - length} bytes of them")
    return texts, tensors, 8 + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _short(text: str) -> int:
    if len(text) > 19:
        raise ValueError(f"a number has {len(text)} digits; the limit is 19")
    return int(text)


def _tensor(name: str, row: Any) -> _Tensor:
    if not isinstance(row, dict) or set(row) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r} does not have dtype, shape and data_offsets")
    dtype, (begin, end) = row["dtype"], row["data_offsets"]
    if dtype not in _TYPES:
        raise UnsupportedError(f"{name!r} is of {str(dtype)[:20]!r}; known are {', '.join(_TYPES)}")
    numbers = [*row["shape"], begin, end]
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise ValueError(f"{name!r} has a number in shape or data_offsets that is not from 0 to 2**63 - 1")
    size = item_bytes(_TYPES[dtype])
    for number in row["shape"]:
        size *= number
    if end - begin != size or len(row["shape"]) > 64:
        raise ValueError(f"{name!r} of shape {row['shape']} has {size} bytes, and its offsets {begin} and {end}")
    return _Tensor(_TYPES[dtype], tuple(row["shape"]), begin, end)


def export_safetensors(path: AnyPath, target: AnyPath, names: Names | None = None, *, durable: bool = True) -> None:
    """Writes the arrays of a checkpoint, or of what it has under these names, to a file of safetensors.

    The names are the keys, joined by dots: "model.layers.0.weight". A dict of texts under "__metadata__" becomes the file's. The
    file appears when it is complete. UnsupportedError names all scalars, types and names that safetensors does not have.
    """
    tree = _part(path, names)
    texts = tree.pop(_METADATA, None) if isinstance(tree, dict) else None
    flat = _flat(tree)
    refused = [f"{name} is a scalar" for name, leaf in flat.items() if is_scalar(leaf)]
    stored = {name: leaf for name, leaf in flat.items() if isinstance(leaf, StoredArray)}
    refused += [f"{name} is {leaf.type_name}" for name, leaf in stored.items() if leaf.type_name not in _CODES]
    refused += [f"{name!r} is a name of the format" for name in stored if name == _METADATA]
    if texts is not None and not (isinstance(texts, dict) and all(isinstance(x, str) for row in texts.items() for x in row)):
        refused.append(f"{_METADATA} is not a dict of texts")
    else:
        said = [*stored, *(text for row in (texts or {}).items() for text in row)]
        refused += [f"{text[:200]!r} has no UTF-8" for text in said if _SURROGATE.search(text)]
    if refused:
        raise UnsupportedError(f"safetensors has no place for {len(refused)} values: {'; '.join(refused)}")
    order = sorted(stored, key=lambda name: (-item_bytes(stored[name].type_name), name))
    header: dict[str, Any] = {} if texts is None else {_METADATA: texts}
    at = 0
    for name in order:
        array = stored[name]
        end = at + array.nbytes
        header[name] = {"dtype": _CODES[array.type_name], "shape": list(array.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST_HEADER:
        raise UnsupportedError(f"the header would have {len(text)} bytes; the limit of safetensors is {_LONGEST_HEADER}")
    with _replacing(target, durable) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(np.ascontiguousarray(stored[name]._bytes()).reshape(-1).view(np.uint8).data)


# ------------------------------------------------------------------------------------------------------------------ npz


def import_npz(
    source: AnyPath, path: AnyPath, *, compression: str | None = None, durable: bool = True, timeout: float | None = None
) -> None:
    """Makes a checkpoint of a .npz file of NumPy: a dict of its arrays. Nothing is unpickled: arrays of objects are refused.

    A member that is no array becomes bytes, as numpy.load() gives it; a folder of the archive is left out. All arrays are in
    memory meanwhile. CorruptError: the file is damaged. The options are those of save().
    """
    shown = os.fsdecode(source)
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(shown) as archive:
            for entry in archive.infolist():
                if entry.is_dir():
                    continue
                name = re.sub(r"\.npy$", "", entry.filename)
                if name in found:
                    raise CorruptError(f"{shown} has the name {name!r} twice")
                with archive.open(entry) as file:
                    begin = file.read(len(npy.MAGIC_PREFIX))
                    if name == entry.filename and begin != npy.MAGIC_PREFIX:
                        found[name] = begin + file.read()
                        continue
                    file.seek(0)
                    found[name] = npy.read_array(file, allow_pickle=False)
    except MMSBError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy's parser have many for damage, and it leads to places that cannot be
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        if "allow_pickle" in str(error):
            raise UnsupportedError(f"{shown}: {name} has pickled objects, which are not read") from None
        raise CorruptError(f"{shown} is damaged: {error}") from None
    save_parts(path, trees.take_apart(found), None, compression, durable, timeout)


def export_npz(path: AnyPath, target: AnyPath, names: Names | None = None, *, durable: bool = True) -> None:
    """Writes the arrays and numbers of a checkpoint, or of what it has under these names, to a .npz file, not compressed.

    The names are the keys, joined by dots. Scalars become arrays without dimensions. The file appears when it is complete.
    UnsupportedError names all values and types that NumPy does not have, as texts and bytes that end in zeros.
    """
    flat = _flat(_part(path, names))
    refused, makers = [], {}
    for name, leaf in flat.items():
        if isinstance(leaf, StoredArray) and leaf.type_name not in ML_TYPES:
            makers[name] = leaf.map
        elif isinstance(leaf, (str, bytes)) and np.asarray(leaf)[()] != leaf:
            refused.append(f"{name} ends in zeros, which NumPy drops")
        elif not isinstance(leaf, StoredArray) and np.asarray(leaf).dtype.kind not in "OV":
            makers[name] = _making(leaf)
        else:
            refused.append(f"{name} is {leaf.type_name if isinstance(leaf, StoredArray) else repr(leaf)[:50]}")
    refused += [f"{name!r} has a zero byte or no UTF-8" for name in flat if re.search("[\0\ud800-\udfff]", name)]
    if refused:
        raise UnsupportedError(f".npz has no place for {len(refused)} values: {'; '.join(refused)}")
    with _replacing(target, durable) as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, make in makers.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                npy.write_array(entry, make(), allow_pickle=False)


def _making(value: Any) -> Callable[[], Array]:
    return lambda: np.asarray(value)


# ----------------------------------------------------------------------------------------------------------------- both

#: What stands in names for a key's characters.
_MEANS = {"/": ".", "~0": "~", "~1": "/", "~s": ""}
_KEY = re.compile("|".join(_MEANS))


def _part(path: AnyPath, names: Names | None) -> Any:
    """What a checkpoint has under names, not read; several names become keys as they are joined by dots."""
    tree = load(path, names, lazy=True)
    if names is None or isinstance(names, str):
        return tree
    return {_KEY.sub(lambda found: _MEANS[found[0]], name): value for name, value in tree.items()}


def _flat(tree: Any) -> dict[str, Any]:
    """The leaves of a tree out of a file by their keys, joined by dots."""
    found: dict[str, Any] = {}
    twice = []
    for name, leaf in _dotted(tree, ()):
        if name in found:
            twice.append(name)
        found[name] = leaf
    if twice:
        raise MismatchError(f"{len(twice)} names are there twice when keys are joined by dots: {', '.join(twice)}")
    return found


def _dotted(tree: Any, keys: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if trees.is_leaf(tree):
        yield ".".join(keys), tree
        return
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from _dotted(value, (*keys, str(key)))


@contextmanager
def _replacing(target: AnyPath, durable: bool) -> Iterator[IO[bytes]]:
    """A file that replaces target when it is complete, and on disk if durable."""
    final = os.fsdecode(target)
    temporary = os.path.join(os.path.dirname(final), f".{secrets.token_hex(8)}.tmp")  # short: the final name may have 255 bytes
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, final)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    if durable:
        folder = os.open(os.path.dirname(final) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
