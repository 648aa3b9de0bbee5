"""Strings as arrays, so that what was fitted is kept without pickling."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.store.checks import check_starts
from plant.store.ragged import offsets

Arrays = dict[str, NDArray[Any]]


def packed_strings(name: str, strings: Sequence[str]) -> Arrays:
    """The UTF-8 of all strings, one after the other, and where each starts; lone surrogates survive."""
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    letters = np.frombuffer(b"".join(encoded), np.uint8).copy()
    return {f"{name}.letters": letters, f"{name}.starts": offsets([len(each) for each in encoded])}


def unpacked_strings(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """What `packed_strings` took apart."""
    check_starts(f"{name}.starts", arrays[f"{name}.starts"], len(arrays[f"{name}.letters"]))
    letters, starts = arrays[f"{name}.letters"].tobytes(), arrays[f"{name}.starts"].tolist()
    return tuple(letters[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(starts))


def under(name: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The same arrays, named as parts of a larger thing."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def part(name: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays that `under` named so."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
