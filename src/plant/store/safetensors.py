"""Tensor files: the safetensors format, a JSON header and then raw little-endian arrays.

The one place that touches weight files. Reading runs no code, and arrays are memory-mapped, so that a corpus larger
than memory can be opened.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.errors import ArtifactError

MAX_IN_MEMORY = 250_000_000  # numbers of a working array: 1 GB
MAX_HEADER = 100_000_000  # bytes; a larger header is not one of ours
DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}

Array = NDArray[Any]


def write_tensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write arrays as one safetensors file, a slice at a time: maps larger than memory pass through."""
    header: dict[str, Any] = {}
    offset = 0
    # largest items first keeps every array aligned to its item size
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    for name, array in ordered:
        shape = [int(size) for size in array.shape]
        header[name] = {
            "dtype": _dtype_name(name, array),
            "shape": shape,
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for _, array in ordered:
            for part in _slices(array):
                file.write(np.ascontiguousarray(part).data)


def read_tensors(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file as read-only maps."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size, MAX_HEADER):
            raise ArtifactError(f"{path} is not a whole safetensors file")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"{path} has no readable safetensors header") from error
    if not isinstance(header, dict):
        raise ArtifactError(f"{path} has no readable safetensors header")
    header.pop("__metadata__", None)
    # one map for all arrays: each map holds the file open, and a coder by candidates has a hundred arrays
    content = np.memmap(path, np.uint8, mode="r")[8 + length :]
    return {name: _viewed(path, name, entry, content) for name, entry in header.items()}


def room_for(rows: int, columns: int) -> NDArray[np.float32]:
    """An array to fill: in memory, or where it is large in a temporary file that vanishes with it."""
    return _room((rows, columns), np.dtype(np.float32))


def joined_rows(parts: Sequence[Array]) -> Array:
    """The rows of several arrays as one, to be read only; where they are many, in a temporary file."""
    room = _room((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    np.concatenate(parts, out=room)
    room.setflags(write=False)
    return room


def _room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if int(np.prod(shape, dtype=np.int64)) <= MAX_IN_MEMORY:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, mode="w+", shape=shape)


def _viewed(path: Path, name: str, entry: Any, content: NDArray[np.uint8]) -> Array:
    try:
        begin, end = entry["data_offsets"]
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path}: tensor {name!r} has a damaged header") from error
    if not all(isinstance(number, int) for number in (begin, end, *shape)):
        raise ArtifactError(f"{path}: tensor {name!r} has a damaged header")
    if not 0 <= begin <= end <= len(content) or end - begin != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise ArtifactError(f"{path}: tensor {name!r} does not lie within the file; it is truncated or damaged")
    if begin == end:
        return np.zeros(shape, dtype)
    return content[begin:end].view(dtype).reshape(shape)


def _dtype_name(name: str, array: Array) -> str:
    if array.dtype not in NAMES:
        raise TypeError(f"tensor {name!r} has type {array.dtype}, which no artifact holds")
    return NAMES[array.dtype]


def _slices(array: Array, *, rows: int = 1 << 20) -> Iterator[Array]:
    if array.ndim == 0:
        yield array.reshape(1)
        return
    for first in range(0, len(array), rows):
        yield array[first : first + rows]
