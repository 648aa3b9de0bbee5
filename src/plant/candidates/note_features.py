"""From the rows of a note, each with its score of level 1, to one row for each code of the note: level 2.

A code is believed for its best spans, for how many there are, and for what other codes claim the same words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.candidates.rows import Rows
from plant.store.ragged import offsets

BEST = 3  # scores of single spans that are features
TOGETHER = 6  # spans that are believed as if they were independent
BELIEVED = 0.3
OWN = (
    *(f"score {number + 1}" for number in range(BEST)), "sum", "any", "places", "believed", "rank", "rival here",
    "sum of note", "codes of note", "best of note", "share of note", "first place",
)  # fmt: skip


@dataclass(frozen=True)
class NoteCodes:
    """The codes of a note that have a candidate: the features of each, and the row of its best span."""

    codes: NDArray[np.int32]
    features: NDArray[np.float32]  # [codes, features]
    best: NDArray[np.int64]  # a number of a row


def feature_names(of_rows: Sequence[str], n_parts: int, maxima: Sequence[str]) -> tuple[str, ...]:
    """The names of the features of level 2, in their order."""
    rivals = (*(f"rival with {number + 1} equal parts" for number in range(n_parts - 1)),
              *(f"rival with equal part {number + 2}" for number in range(n_parts - 1)))  # fmt: skip
    return (*OWN, *rivals, *(f"best {name}" for name in maxima), *of_rows)


def note_codes(rows: Rows, scores: NDArray[np.float32], parts: NDArray[np.int32], maxima: Sequence[int]) -> NoteCodes:
    """Level 2 of a note; `parts` numbers the parts of every code, `maxima` are features of rows that are maximised."""
    order = np.lexsort((rows.first, -scores, rows.code))
    codes, starts = np.unique(rows.code[order], return_index=True)
    starts = np.append(starts, len(order)).astype(np.int64)
    if not len(codes):
        width = len(OWN) + 2 * (parts.shape[1] - 1) + len(maxima) + rows.features.shape[1]
        return NoteCodes(codes.astype(np.int32), np.empty((0, width), np.float32), np.empty(0, np.int64))
    own = scores[order]
    best = order[starts[:-1]]
    top = scores[best]
    within = np.arange(len(order)) - np.repeat(starts[:-1], np.diff(starts))
    columns = [
        *(_nth(own, starts, number) for number in range(BEST)),
        np.add.reduceat(own, starts[:-1]),
        1 - np.exp(np.add.reduceat(np.where(within < TOGETHER, np.log1p(-np.minimum(own, 0.9999)), 0), starts[:-1])),
        _separate_places(rows),
        np.add.reduceat((own > BELIEVED).astype(np.float32), starts[:-1]),
        np.argsort(np.argsort(-top, kind="stable"), kind="stable"),
        _rivals_here(rows, scores, codes, best),
        np.full(len(codes), top.sum()),
        np.full(len(codes), len(codes)),
        np.full(len(codes), top.max()),
        top / max(top.max(), 1e-9),
        np.minimum.reduceat(np.where(rows.first < 0, np.inf, rows.start)[order], starts[:-1]),
        *_rivals_by_parts(top, parts[codes]),
        *(np.maximum.reduceat(rows.features[order, column], starts[:-1]) for column in maxima),
    ]
    own_features = np.stack(columns, axis=1).astype(np.float32)
    own_features[np.isinf(own_features)] = np.nan
    features = np.concatenate([own_features, rows.features[best]], axis=1)
    return NoteCodes(codes.astype(np.int32), features, best.astype(np.int64))


def _nth(values: NDArray[np.float32], starts: NDArray[np.int64], number: int) -> NDArray[np.float32]:
    """The value at a place of each group; 0 where the group is shorter."""
    places = starts[:-1] + number
    return np.where(places < starts[1:], values[np.minimum(places, len(values) - 1)], 0)


def _separate_places(rows: Rows) -> NDArray[np.float32]:
    """How many spans of each code do not overlap, from left to right."""
    order = np.lexsort((rows.last, rows.first, rows.code))
    codes, group = np.unique(rows.code[order], return_inverse=True)
    apart = np.int64(group) * (int(rows.last.max(initial=0)) + 2)  # groups lie behind each other
    reached = np.maximum.accumulate(rows.last[order] + apart)
    new = np.concatenate([[True], (rows.first[order] + apart)[1:] >= reached[:-1]])
    return np.bincount(group, weights=new & (rows.first[order] >= 0), minlength=len(codes)).astype(np.float32)


def _rivals_here(
    rows: Rows, scores: NDArray[np.float32], codes: NDArray[np.int32], best: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The best score of another code on words of a code's best span."""
    first, last = rows.first[best][:, None], rows.last[best][:, None]
    meet = (rows.first < last) & (rows.last > first) & (rows.code != codes[:, None]) & (rows.first >= 0)
    return np.where(meet, scores, 0).max(axis=1)


def _rivals_by_parts(top: NDArray[np.float32], parts: NDArray[np.int32]) -> list[NDArray[np.float32]]:
    """The best score of another code with the same first parts, one or more of them; and with the same later part."""
    other = ~np.eye(len(top), dtype=bool)
    equal = parts[:, None, :] == parts[None, :, :]
    leading = [equal[:, :, :number].all(axis=2) for number in range(1, parts.shape[1])]
    single = [equal[:, :, number] for number in range(1, parts.shape[1])]
    return [np.where(mask & other, top, 0).max(axis=1) for mask in (*leading, *single)]


def joined_features(notes: Sequence[NoteCodes]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The features of several notes behind each other, and where each note starts."""
    return np.concatenate([note.features for note in notes]), offsets([len(note.codes) for note in notes])
