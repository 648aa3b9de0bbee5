"""What coders marked, as a dictionary: how often each wording was marked and how often it stands in the fitted notes.

A fitted note is shown a dictionary without itself. A tagger that saw its own answers there would learn to trust it
more than it deserves in a new note.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates.packing import Arrays
from plant.candidates.phrases import Matches, Phrases, Tokens, gather_phrases, unpack_phrases
from plant.store.checks import check_shape

Spans = Collection[tuple[int, int]]
"""Marked words of a note, `first` and `last` (excluded); each span once, for however many codes it was marked."""

NONE, BEGIN, INSIDE, END, SINGLE = range(5)
N_SHARES, N_MARKED = 5, 3


@dataclass(frozen=True)
class Found:
    """Wordings that stand in a note, how often each was marked and how often it stands elsewhere."""

    first: NDArray[np.int32]
    last: NDArray[np.int32]
    marked: NDArray[np.int64]
    standing: NDArray[np.int64]

    @property
    def shares(self) -> NDArray[np.float64]:
        """The part of its occurrences that was marked."""
        return self.marked / np.maximum(self.standing, 1)


@dataclass(frozen=True)
class Gazetteer:
    """Wordings, how often each was marked and how often it stands in the fitted notes."""

    phrases: Phrases
    marked: NDArray[np.int64]
    standing: NDArray[np.int64]

    def find(self, tokens: Tokens, own: Spans | None = None) -> Found:
        """Wordings in a note; `own` is what was marked in a fitted note, which then counts as if it were new."""
        matches = self.phrases.find(tokens)
        marked, standing = self.marked[matches.phrase], self.standing[matches.phrase]
        if own is not None:
            place, own_standing = np.unique(matches.phrase, return_inverse=True, return_counts=True)[1:]
            marked = marked - np.bincount(place, _are_marked(matches, own), len(own_standing)).astype(np.int64)[place]
            standing = standing - own_standing[place]
        known = marked > 0
        return Found(matches.first[known], matches.last[known], marked[known], standing[known])

    def pack(self) -> Arrays:
        """Everything, as arrays."""
        return {**self.phrases.pack(), "marked": self.marked, "standing": self.standing}


def fit_gazetteer(notes: Sequence[Tokens], spans: Sequence[Spans]) -> Gazetteer:
    """Count the wordings that were marked in some notes, and where they stand in them."""
    phrases = gather_phrases(tokens.phrase(*span) for tokens, own in zip(notes, spans, strict=True) for span in own)
    marked, standing = np.zeros(len(phrases), np.int64), np.zeros(len(phrases), np.int64)
    for tokens, own in zip(notes, spans, strict=True):
        matches = phrases.find(tokens)
        np.add.at(marked, matches.phrase[_are_marked(matches, own)], 1)  # a table of all phrases for each note
        np.add.at(standing, matches.phrase, 1)  # would cost notes times phrases
    return Gazetteer(phrases, marked, standing)


def unpack_gazetteer(arrays: Mapping[str, NDArray[Any]]) -> Gazetteer:
    """What `pack` took apart."""
    phrases = unpack_phrases(arrays)
    check_shape("marked", arrays["marked"], (len(phrases),), "i")
    check_shape("standing", arrays["standing"], (len(phrases),), "i")
    return Gazetteer(phrases, arrays["marked"], arrays["standing"])


def _are_marked(matches: Matches, own: Spans) -> NDArray[np.bool_]:
    pairs = zip(matches.first.tolist(), matches.last.tolist(), strict=True)
    return np.fromiter((pair in own for pair in pairs), np.bool_, len(matches))


def longest_matches(found: Found) -> list[int]:
    """Rows of `found` read from left to right, always the longest wording, none within another."""
    longest = np.flatnonzero(np.diff(found.first, append=-1))  # the last of those with the same first word
    chosen, end = [], 0
    for row, first, last in zip(longest.tolist(), *_bounds(found, longest), strict=True):
        if first >= end:
            chosen.append(row)
            end = last
    return chosen


def positions(found: Found, n_words: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Of each word, its place in the longest match (0 outside), and the same with how far the wording is believed."""
    places, believed = np.zeros(n_words, np.int32), np.zeros(n_words, np.int32)
    rows = np.array(longest_matches(found), np.int64)
    belief = (_share_bucket(found) * N_MARKED + _marked_bucket(found)).astype(np.int32)
    for first, last, bucket in zip(*_bounds(found, rows), belief[rows].tolist(), strict=True):
        places[first:last] = INSIDE
        places[first], places[last - 1] = BEGIN, END
        if last - first == 1:
            places[first] = SINGLE
        believed[first:last] = places[first:last] * N_SHARES * N_MARKED + bucket
    return places, believed


def _bounds(found: Found, rows: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    return found.first[rows].tolist(), found.last[rows].tolist()


def _share_bucket(found: Found) -> NDArray[np.int64]:
    """The smoothed share of marked occurrences, in fifths."""
    shares = (found.marked + 0.3) / (np.maximum(found.standing, found.marked) + 0.8)
    return np.minimum((N_SHARES * shares).astype(np.int64), N_SHARES - 1)


def _marked_bucket(found: Found) -> NDArray[np.int64]:
    """Marked once, two or three times, more often."""
    return np.searchsorted([2, 4], found.marked, side="right")
