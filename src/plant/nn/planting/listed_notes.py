"""Notes as sparse planting reads them: the words that some label lists, and the labels that list them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from plant.nn.planting import listed_kernels as kernels
from plant.nn.planting.lambdarank import in_threads

Array = NDArray[Any]
Integers = NDArray[np.integer]


class Words(NamedTuple):
    """The distinct listed words of each segment have a place; the first k positions of a place have rows."""

    segments: Integers  # [place]
    rows: Integers  # [place + 1]: the rows of place i are rows[i]:rows[i + 1]
    positions: Integers  # [row], rising within a place


class Pairs(NamedTuple):
    """Labels that are found in a document, and the places of the words that they list."""

    labels: Integers  # [found]
    firsts: Integers  # [found]: its pairs are firsts[n]:lasts[n], by place
    lasts: Integers  # [found]
    places: Integers  # [pair]
    entries: Integers  # [pair]: which entry of the lists it is


@dataclass(frozen=True)
class Notes:
    """The listed words and pairs of a batch of documents."""

    tokens: Integers  # [place]
    place_bounds: Integers  # [document + 1]
    pair_bounds: Integers  # [document + 1]: room for pairs; there are fewer where not all labels were asked for
    found: Integers  # [document]: how many labels
    words: Words
    pairs: Pairs

    def __len__(self) -> int:
        return len(self.found)

    def places_in(self, document: int) -> tuple[int, int]:
        """The first place of a document, and the first behind it."""
        return self.place_bounds[document], self.place_bounds[document + 1]

    def found_in(self, document: int) -> tuple[int, int]:
        """The first found label of a document, and the first behind it; labels rise."""
        first = self.pair_bounds[document]
        return first, first + self.found[document]

    def found_from(self, label: int) -> tuple[Integers, Integers]:
        """Per document, the first found label that is `label` or higher, and the first behind all."""
        spans = [self.found_in(document) for document in range(len(self))]
        firsts = [first + np.searchsorted(self.pairs.labels[first:last], label) for first, last in spans]
        return np.array(firsts, np.int64), np.array([last for _, last in spans], np.int64)


def read_notes(
    tokens: Integers, lengths: Sequence[Sequence[int]], starts: Integers, labels: Integers, asked: Integers, *, k: int
) -> Notes:
    """Read documents cut into segments; token t is listed by `labels[starts[t]:starts[t + 1]]`.

    `asked` is 1 for labels whose pairs are wanted, else 0.
    """
    found_tokens, place_bounds, words = _words(tokens, lengths, starts, k)
    pair_starts = _starts(starts[found_tokens + 1] - starts[found_tokens])
    pairs = Pairs(*(np.empty(pair_starts[-1], np.int32) for _ in Pairs._fields))
    found = np.zeros(len(lengths), np.int64)
    notes = Notes(found_tokens, place_bounds, pair_starts[place_bounds], found, words, pairs)

    def collect(first: int, last: int) -> None:
        cursor = np.zeros(len(asked), np.int32)
        for document in range(first, last):
            lists = (found_tokens, place_bounds, starts, labels, asked)
            kernels.collect(document, *lists, notes.pair_bounds, found, *pairs, cursor)

    side_by_side(collect, len(lengths))
    return notes


def _words(
    tokens: Integers, lengths: Sequence[Sequence[int]], starts: Integers, k: int
) -> tuple[Integers, Integers, Words]:
    """The token of each place, the places of each document, and where they stand."""
    segment_starts = _starts(np.array([length for document in lengths for length in document], np.int64))
    document_starts = _starts(np.array([len(document) for document in lengths], np.int64))
    found, segments, counts, place_bounds = (np.zeros(n, np.int64) for n in (*[len(tokens)] * 3, len(lengths) + 1))
    place_of, place_at = (np.full(n, -1, np.int64) for n in (len(starts), len(tokens)))
    where = (place_of, found, segments, counts, place_at, place_bounds)
    n = kernels.find_words(tokens, segment_starts, document_starts, starts, *where)
    rows = _starts(np.minimum(counts[:n], k))
    positions = np.empty(rows[-1], np.int64)
    kernels.fill_rows(place_at, rows, rows[:-1].copy(), positions)
    return found[:n].copy(), place_bounds, Words(segments[:n].copy(), rows, positions)


def _starts(sizes: Integers) -> Integers:
    """Where each of several runs begins, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def side_by_side(work: Callable[[int, int], None], n: int) -> None:
    """Call `work(first, last)` on parts of `range(n)`, in torch's number of threads."""
    in_threads(lambda part: work(part.start, part.stop), n, torch.get_num_threads())
