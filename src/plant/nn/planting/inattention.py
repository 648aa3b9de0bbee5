"""Inattention: which positions of a document survive for each label, and the relevance lists of its tokens.

Both depend on a token's identity only, so they are computed on a document's distinct tokens. Each has a numba form for
the CPU and a plain torch form for every other device; they give the same.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor

from plant.nn.forms import compiled_for


@dataclass(frozen=True)
class Distinct:
    """The distinct tokens of a document, and where they stand.

    Position j holds `tokens[place[j]]`; distinct token i stands at `order[starts[i]:starts[i + 1]]`, rising.
    """

    tokens: Int[Tensor, "token"]
    place: Int[Tensor, "position"]
    order: Int[Tensor, "position"]
    starts: Int[Tensor, "token+1"]


@dataclass(frozen=True)
class Survivors:
    """Per label the positions that survive, in any order, and which distinct token stands there."""

    positions: Int[Tensor, "label kept"]
    places: Int[Tensor, "label kept"]


def distinct(tokens: Int[Tensor, "position"]) -> Distinct:
    """The distinct tokens of a document, rising."""
    found, place, counts = tokens.unique(return_inverse=True, return_counts=True)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Distinct(found, place, place.argsort(stable=True), starts)


def survivors(scores: Float[Tensor, "label token"], document: Distinct, k: int) -> Survivors:
    """The `k` positions of highest score for each label; of equal scores, those that stand first."""
    form = survivors_numba if compiled_for(scores.device) else survivors_torch
    return form(scores, document, min(k, len(document.place)))


def survivors_torch(scores: Float[Tensor, "label token"], document: Distinct, k: int) -> Survivors:
    """`survivors` by sorting all positions."""
    positions = scores[:, document.place].argsort(dim=1, descending=True, stable=True)[:, :k]
    return Survivors(positions, document.place[positions])


def survivors_numba(scores: Float[Tensor, "label token"], document: Distinct, k: int) -> Survivors:
    """`survivors` by bisection for the score that k positions exceed."""
    positions = torch.zeros(len(scores), k, dtype=torch.int64)
    places = torch.zeros_like(positions)
    _keep(
        scores.contiguous().numpy(), document.place.numpy(), document.order.numpy(), document.starts.numpy(),
        k, positions.numpy(), places.numpy(),
    )  # fmt: skip
    return Survivors(positions, places)


Asked = range | Int[Tensor, "asked"]
"""A run of labels, or any labels."""


def rows_of(labels: Asked) -> slice | Int[Tensor, "asked"]:
    """The labels as an index of rows."""
    return run_of(labels) if isinstance(labels, range) else labels


def run_of(labels: range) -> slice:
    """A run of labels as an index of rows."""
    return slice(labels.start, labels.stop)


@dataclass(frozen=True)
class LabelsByToken:
    """Relevance by token: token t is listed by `labels[starts[t]:starts[t + 1]]`, rising, with these scores."""

    starts: Int[Tensor, "bound"]
    labels: Int[Tensor, "entry"]
    scores: Float[Tensor, "entry"]


def relevance_rows(lists: LabelsByToken, document: Distinct, labels: Asked) -> Float[Tensor, "label token"]:
    """The relevance of each distinct token for some labels; zero where a label does not list it."""
    form = relevance_rows_numba if compiled_for(lists.scores.device) else relevance_rows_torch
    if isinstance(labels, range):
        return form(lists, document, labels)
    asked, places = labels.unique(return_inverse=True)
    rows = [form(lists, document, range(label, label + 1)) for label in asked.tolist()]
    return torch.cat([lists.scores.new_zeros(0, len(document.tokens)), *rows])[places]


def relevance_rows_torch(lists: LabelsByToken, document: Distinct, labels: range) -> Float[Tensor, "label token"]:
    """`relevance_rows` by a scatter."""
    sizes = lists.starts[document.tokens + 1] - lists.starts[document.tokens]
    return relevance_of(lists, document.tokens, labels, int(sizes.sum()))


def relevance_of(
    lists: LabelsByToken, tokens: Int[Tensor, "token"], labels: range, entries: int
) -> Float[Tensor, "label token"]:
    """The relevance of tokens for some labels; who knows how many `entries` their lists have waits for no device."""
    first, sizes = lists.starts[tokens], lists.starts[tokens + 1] - lists.starts[tokens]
    places = torch.arange(len(first), device=first.device).repeat_interleave(sizes, output_size=entries)
    listed = torch.arange(entries, device=first.device) + (first - (sizes.cumsum(0) - sizes))[places]
    wanted = lists.labels[listed].long() - labels.start
    outside = (wanted < 0) | (wanted >= len(labels))
    rows = lists.scores.new_zeros(len(labels) + 1, len(tokens))  # what is not asked for goes into the last
    rows[torch.where(outside, len(labels), wanted), places] = lists.scores[listed]
    return rows[:-1]


def relevance_rows_numba(lists: LabelsByToken, document: Distinct, labels: range) -> Float[Tensor, "label token"]:
    """`relevance_rows` by a walk over the lists."""
    rows = lists.scores.new_zeros(len(labels), len(document.tokens))
    _fill(
        lists.starts.numpy(), lists.labels.numpy(), lists.scores.numpy(), document.tokens.numpy(),
        labels.start, labels.stop, rows.numpy(),
    )  # fmt: skip
    return rows


@njit(cache=True, nogil=True)
def _fill(list_starts, list_labels, list_scores, tokens, first, last, rows):  # type: ignore[no-untyped-def]
    for place in range(len(tokens)):
        begin, end = list_starts[tokens[place]], list_starts[tokens[place] + 1]
        entry = begin + np.searchsorted(list_labels[begin:end], first)
        while entry < end and list_labels[entry] < last:
            rows[list_labels[entry] - first, place] = list_scores[entry]
            entry += 1


@njit(cache=True, nogil=True)
def _keep(scores, place, order, starts, k, positions, places):  # type: ignore[no-untyped-def]
    counts = np.diff(starts).astype(scores.dtype)
    for label in range(len(scores) if k > 0 else 0):
        floor, ties = _floor(scores[label], counts, k)
        if np.sum(scores[label] == floor) > 1:
            _keep_by_position(scores[label], place, floor, ties, positions[label], places[label])
        else:
            _keep_by_token(scores[label], order, starts, floor, ties, positions[label], places[label])


@njit(cache=True, nogil=True)
def _keep_by_token(row, order, starts, floor, ties, positions, places):  # type: ignore[no-untyped-def]
    """All positions of the tokens above the floor, and the first ones of the one token, if any, that is on it."""
    filled = 0
    for token in range(len(row)):
        if row[token] >= floor:
            last = starts[token + 1] if row[token] > floor else starts[token] + ties
            for at in range(starts[token], last):
                positions[filled] = order[at]
                places[filled] = token
                filled += 1


@njit(cache=True, nogil=True)
def _keep_by_position(row, place, floor, ties, positions, places):  # type: ignore[no-untyped-def]
    """All positions above the floor, and the first ones on it, whichever of several tokens stands there."""
    filled = 0
    for position in range(len(place)):
        score = row[place[position]]
        if score > floor or (score == floor and ties > 0):
            ties -= score == floor
            positions[filled] = position
            places[filled] = place[position]
            filled += 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "nnan"})
def _range(row):  # type: ignore[no-untyped-def]
    low, high = row[0], row[0]
    for score in row:
        low, high = min(low, score), max(high, score)
    return low, high


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _count_above(row, counts, bound):  # type: ignore[no-untyped-def]
    total = counts.dtype.type(0)
    for token in range(len(row)):
        total += counts[token] if row[token] > bound else counts.dtype.type(0)
    return total


@njit(cache=True, nogil=True)
def _floor(row, counts, k):  # type: ignore[no-untyped-def]
    """A score that at most k positions exceed, and how many positions of just that score make up k."""
    low, high = _range(row)
    above = _count_above(row, counts, low)
    if above <= k:
        return low, np.int64(k - above)
    while True:
        middle = counts.dtype.type((low + high) * 0.5)
        if not low < middle < high:
            return high, np.int64(k - _count_above(row, counts, high))
        above = _count_above(row, counts, middle)
        if above == k:
            return middle, np.int64(0)
        if above > k:
            low = middle
        else:
            high = middle
