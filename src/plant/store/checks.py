"""Arrays of opened artifacts, looked at before compiled kernels run over them without looking.

A digest tells damage; it does not tell that a number points out of its table, which a kernel would follow.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.errors import ArtifactError, PlantError


def check_starts(name: str, starts: NDArray[Any], n_values: int, *, rows: int | None = None) -> None:
    """Refuse starts of rows that do not rise from 0 to the number of values."""
    whole = starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) > 0
    if not whole or starts[0] != 0 or starts[-1] != n_values or bool((np.diff(starts) < 0).any()):
        raise ArtifactError(f"{name} of the folder does not part {n_values:,} values into rows: make it again")
    if rows is not None and len(starts) - 1 != rows:
        raise ArtifactError(f"{name} of the folder has {len(starts) - 1:,} rows where {rows:,} belong: make it again")


def check_numbers(name: str, numbers: NDArray[Any], below: int, *, least: int = 0, axes: int = 1) -> None:
    """Refuse numbers of words, codes or rows that point out of their table."""
    whole = numbers.dtype.kind in "iu" and numbers.ndim == axes
    if not whole or (numbers.size and (int(numbers.min()) < least or int(numbers.max()) >= below)):
        raise ArtifactError(f"{name} of the folder points out of a table of {below:,}: make it again")


def check_length(name: str, array: NDArray[Any], length: int, *, finite: bool = False) -> None:
    """Refuse an array of another length, or, where asked for, with values that are no finite numbers."""
    if array.ndim < 1 or len(array) != length:
        raise ArtifactError(f"{name} of the folder has another length than {length:,}: make it again")
    if finite and (array.dtype.kind not in "fiu" or not bool(np.isfinite(array).all())):
        raise ArtifactError(f"{name} of the folder has values that are no numbers: make it again")


def check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...], kinds: str = "f") -> None:
    """Refuse an array of another shape, or of another kind of values, which no kernel was made for."""
    if array.shape != shape or array.dtype.kind not in kinds:
        raise ArtifactError(f"{name} of the folder has another shape or type than it must have: make it again")


def check_shares(name: str, array: NDArray[Any]) -> None:
    """Refuse shares below 0 or above 1: probabilities are made of them."""
    if array.size and not (float(array.min()) >= 0 and float(array.max()) <= 1):
        raise ArtifactError(f"{name} of the folder has shares below 0 or above 1: make it again")


def check_finite(tensors: Mapping[str, NDArray[Any]]) -> None:
    """Refuse weights one of which is no number: all that is computed with them would be none."""
    for name, array in tensors.items():
        if not bool(np.isfinite(array).all()):
            raise ArtifactError(f"{name} of the folder has values that are no numbers: make it again")


def check_count(name: str, value: Any) -> int:
    """A fact that says how many there are."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ArtifactError(f"{name} of the folder is no number of things: make it again")
    return value


def check_epochs(epochs: Any) -> None:
    """Refuse the history of a training that tells anything but numbers."""
    values = [value for epoch in epochs for value in epoch.values()]
    if not all(value is None or isinstance(value, (int, float)) for value in values):
        raise ArtifactError("the history of the folder tells of other things than numbers: make it again")


@contextmanager
def well_formed(path: object) -> Iterator[None]:
    """What goes wrong while a thing is put together from its parts, as one error: a part is missing or misshapen."""
    try:
        yield
    except PlantError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
        # the kind alone: what it says may quote a table
        problem = f"its parts do not fit together ({type(error).__name__})"
        raise ArtifactError(f"{path} is damaged, or of another version: {problem}; make it again") from error
