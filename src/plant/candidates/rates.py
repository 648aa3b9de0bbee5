"""How often a word stands within a mention, first in one and last in one: what every note says of it but itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64
from numpy.typing import NDArray

from plant.candidates.gazetteer import Spans
from plant.candidates.packing import Arrays, packed_strings, unpacked_strings
from plant.store.checks import check_shape

SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])  # between buckets of shares
OCCURRENCES = np.array([2, 5, 20])  # between buckets of how far a share can be trusted


@dataclass(frozen=True)
class Rates:
    """Stems of the fitted notes, and how often each stands there, within mentions, first in them and last."""

    stems: tuple[str, ...]
    counts: Int64[np.ndarray, "4 stem"]

    def values(self, stems: Sequence[str], own: Spans | None = None) -> Int32[np.ndarray, "3 word"]:
        """Of each word the buckets of its three shares, from 1; 0 for a word that no other note has.

        `own` is what was marked in a fitted note, which then counts as if it were new.
        """
        numbers = np.array([self._number_of.get(stem, len(self.stems)) for stem in stems], np.int64)
        known = numbers < len(self.stems)
        counts = np.zeros((4, len(numbers)), np.int64)
        counts[:, known] = self.counts[:, numbers[known]]
        if own is not None:
            place = np.unique(numbers, return_inverse=True)[1]
            counts -= np.stack([np.bincount(each, minlength=len(numbers)) for each in _chosen(place, own)])[:, place]
        standing, *parts = counts
        trust = np.searchsorted(OCCURRENCES, standing, side="right")
        shares = (np.stack(parts) + 0.1) / (standing + 0.5)
        buckets = 1 + np.searchsorted(SHARES, shares) * (len(OCCURRENCES) + 1) + trust
        return np.where(standing > 0, buckets, 0).astype(np.int32)

    def pack(self) -> Arrays:
        """Everything, as arrays."""
        return {**packed_strings("stems", self.stems), "counts": self.counts}

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {stem: number for number, stem in enumerate(self.stems)}


def fit_rates(notes: Sequence[Sequence[str]], spans: Sequence[Spans]) -> Rates:
    """Count the stems of some notes, and where they stand in what was marked."""
    stems = tuple(sorted({stem for note in notes for stem in note}))
    number_of = {stem: number for number, stem in enumerate(stems)}
    counts = np.zeros((4, len(stems)), np.int64)
    for note, own in zip(notes, spans, strict=True):
        for row, each in zip(counts, _chosen(np.array([number_of[stem] for stem in note], np.int64), own), strict=True):
            np.add.at(row, each, 1)  # a table of all stems for each note would cost notes times stems
    return Rates(stems, counts)


def unpack_rates(arrays: Mapping[str, NDArray[Any]]) -> Rates:
    """What `pack` took apart."""
    stems = unpacked_strings("stems", arrays)
    check_shape("counts", arrays["counts"], (4, len(stems)), "i")
    return Rates(stems, arrays["counts"])


def _chosen(numbers: NDArray[np.int64], own: Spans) -> tuple[NDArray[np.int64], ...]:
    """The stems of a note's words; of those within spans, a word of two spans once; of first words; of last words."""
    within = np.zeros(len(numbers), np.bool_)
    for first, last in own:
        within[first:last] = True
    firsts = np.array([first for first, _ in own], np.int64)
    lasts = np.array([last - 1 for _, last in own], np.int64)
    return numbers, numbers[within], numbers[firsts], numbers[lasts]
