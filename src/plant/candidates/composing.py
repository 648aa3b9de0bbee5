"""Codes put together from the parts that a wording is likely to name."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.candidates.names import NO_CODE, Namer

WIDTH = 48  # part by part, so many beginnings are kept; the best codes of listed parts are then among them


@dataclass(frozen=True)
class Composed:
    """Codes of wordings, by number; those from `len(namer.codes)` on stand in `unlisted`."""

    wording: NDArray[np.int64]
    code: NDArray[np.int64]
    unlisted: tuple[str, ...]


def compose(namer: Namer, probabilities: NDArray[np.float32]) -> Composed:
    """The likeliest codes of each wording: listed ones, and others whose probability is high enough."""
    if not len(probabilities) or not namer.values.starts[-1]:
        return Composed(np.empty(0, np.int64), np.empty(0, np.int64), ())
    values, products = _beginnings(namer, probabilities)
    rows, places = np.nonzero(products > namer.options.least_product)
    found, product = values[rows, places], products[rows, places]
    code = _listed(namer, found)
    code, unlisted = _unlisted(namer, code, found, product)
    kept = code != NO_CODE
    rows, code, product = rows[kept], code[kept], product[kept]
    best = _best(rows, product, namer.options.composed)
    return Composed(rows[best], code[best], unlisted)


def _beginnings(namer: Namer, probabilities: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The likeliest rows of values, part after part: what is not among the best beginnings cannot be at the end."""
    n, starts = len(probabilities), namer.values.starts
    values, products = np.zeros((n, 1, 0), np.int64), np.ones((n, 1), np.float32)
    for part in range(namer.n_parts):
        own = probabilities[:, starts[part] : starts[part + 1]]
        best = _top(own, namer.options.other_values if part else namer.options.first_values)
        joined = products[:, :, None] * np.take_along_axis(own, best, 1)[:, None, :]
        grown = np.concatenate(
            [np.repeat(values, best.shape[1], 1), np.tile(best, (1, values.shape[1]))[:, :, None]], axis=2
        )
        flat = joined.reshape(n, -1)
        kept = _top(flat, WIDTH)
        values, products = np.take_along_axis(grown, kept[:, :, None], 1), np.take_along_axis(flat, kept, 1)
    return values, products


def _top(table: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The places of the largest of each row, in no order."""
    if table.shape[1] <= count:
        return np.tile(np.arange(table.shape[1]), (len(table), 1))
    return np.argpartition(table, table.shape[1] - count, axis=1)[:, -count:]


def _listed(namer: Namer, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The codes that fitted notes or the book have, of rows of values."""
    known, codes = namer.listed
    keys = namer.values.keys(values)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[places] == keys, codes[places], NO_CODE)


def _unlisted(
    namer: Namer, code: NDArray[np.int64], values: NDArray[np.int64], products: NDArray[np.float32]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The same codes, and numbers for those that nobody lists but that are likely and can be written."""
    code, numbers = code.copy(), dict[str, int]()
    for row in np.flatnonzero((code == NO_CODE) & (products > namer.options.least_unlisted)).tolist():
        parts = _written(namer, values[row].tolist())
        if namer.parts.go_together(parts):
            code[row] = numbers.setdefault(namer.parts.join(parts), len(namer.codes) + len(numbers))
    return code, tuple(numbers)


def _written(namer: Namer, values: Sequence[int]) -> tuple[str, ...]:
    return tuple(known[value] for known, value in zip(namer.values.parts, values, strict=True))


def _best(rows: NDArray[np.int64], products: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The places of the largest products of each row."""
    order = np.lexsort((-products, rows))
    ranks = np.arange(len(order)) - np.searchsorted(rows[order], rows[order])
    return order[ranks < count]
