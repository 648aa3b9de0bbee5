"""ListedNotes as sparse planting reads them: the words that some label lists, and the labels that list them.

A batch is read into arrays that refer to one another:

    place   a distinct listed word of a segment: tokens[place], segments[place]
    row     one of the first k positions of a place: positions[row], rows[place] <= row < rows[place + 1]
    pair    a label and a place whose word it lists: places[pair], entries[pair] (of the lists)
    found   a label that has pairs in a document: labels[found], firsts[found] <= pair < lasts[found], pairs by place

Documents have places `place_bounds[d]:place_bounds[d + 1]` and found labels `pair_bounds[d]:pair_bounds[d] + found[d]`,
rising.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.nn.host import side_by_side

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
class ListedNotes:
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
        return int(self.place_bounds[document]), int(self.place_bounds[document + 1])

    def found_in(self, document: int) -> tuple[int, int]:
        """The first found label of a document, and the first behind it; labels rise."""
        first = int(self.pair_bounds[document])
        return first, first + int(self.found[document])

    def found_from(self, label: int) -> tuple[Integers, Integers]:
        """Per document, the first found label that is `label` or higher, and the first behind all."""
        spans = [self.found_in(document) for document in range(len(self))]
        firsts = [first + np.searchsorted(self.pairs.labels[first:last], label) for first, last in spans]
        return np.array(firsts, np.int64), np.array([last for _, last in spans], np.int64)


def read_notes(
    tokens: Integers, lengths: Sequence[Sequence[int]], starts: Integers, labels: Integers, asked: Integers, *, k: int
) -> ListedNotes:
    """Read documents cut into segments; token t is listed by `labels[starts[t]:starts[t + 1]]`.

    `asked` is 1 for labels whose pairs are wanted, else 0.
    """
    found_tokens, place_bounds, words = _words(tokens, lengths, starts, k)
    pair_starts = _starts(starts[found_tokens + 1] - starts[found_tokens])
    pairs = Pairs(*(np.empty(pair_starts[-1], np.int32) for _ in Pairs._fields))
    found = np.zeros(len(lengths), np.int64)
    notes = ListedNotes(found_tokens, place_bounds, pair_starts[place_bounds], found, words, pairs)

    def collect(first: int, last: int) -> None:
        cursor = np.zeros(len(asked), np.int32)
        for document in range(first, last):
            lists = (found_tokens, place_bounds, starts, labels, asked)
            _collect(document, *lists, notes.pair_bounds, found, *pairs, cursor)

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
    n = _find_words(tokens, segment_starts, document_starts, starts, *where)
    rows = _starts(np.minimum(counts[:n], k))
    positions = np.empty(rows[-1], np.int64)
    _fill_rows(place_at, rows, rows[:-1].copy(), positions)
    return found[:n].copy(), place_bounds, Words(segments[:n].copy(), rows, positions)


def _starts(sizes: Integers) -> Integers:
    """Where each of several runs begins, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


@njit(cache=True, nogil=True)
def _find_words(  # type: ignore[no-untyped-def]
    all_tokens, segment_starts, document_starts, list_starts, place_of, tokens, segments, counts, place_at, place_bounds
):
    """Give a place to each distinct listed token of a segment; documents are runs of segments, segments of positions.

    `place_of` [token] and `place_at` [position] are all -1, `counts` [place] all 0; the answer is the number of places.
    """
    n = 0
    for document in range(len(document_starts) - 1):
        for segment in range(document_starts[document], document_starts[document + 1]):
            first = n
            for position in range(segment_starts[segment], segment_starts[segment + 1]):
                token = all_tokens[position]
                if token < len(list_starts) - 1 and list_starts[token] < list_starts[token + 1]:
                    if place_of[token] < 0:
                        place_of[token], tokens[n], segments[n] = n, token, segment
                        n += 1
                    place_at[position] = place_of[token]
                    counts[place_of[token]] += 1
            for place in range(first, n):
                place_of[tokens[place]] = -1
        place_bounds[document + 1] = n
    return n


@njit(cache=True, nogil=True)
def _fill_rows(place_at, rows, filled, positions):  # type: ignore[no-untyped-def]
    """Write the first positions of each place into its rows; `filled` is `rows` without the last."""
    for position in range(len(place_at)):
        place = place_at[position]
        if place >= 0 and filled[place] < rows[place + 1]:
            positions[filled[place]] = position
            filled[place] += 1


@njit(cache=True, nogil=True)
def _collect(  # type: ignore[no-untyped-def]
    document, tokens, place_bounds, list_starts, list_labels, asked, pair_bounds, found,
    labels, firsts, lasts, places, entries, cursor,
):  # fmt: skip
    """Write down the pairs of a document with labels that are asked for, by a counting sort; `cursor` is all zero."""
    for place in range(place_bounds[document], place_bounds[document + 1]):
        for entry in range(list_starts[tokens[place]], list_starts[tokens[place] + 1]):
            cursor[list_labels[entry]] += asked[list_labels[entry]]
    begin = n = at = pair_bounds[document]
    for label in range(len(cursor)):
        if cursor[label] > 0:
            labels[n], firsts[n] = label, at
            at += cursor[label]
            lasts[n], cursor[label] = at, firsts[n]
            n += 1
    for place in range(place_bounds[document], place_bounds[document + 1]):
        for entry in range(list_starts[tokens[place]], list_starts[tokens[place] + 1]):
            label = list_labels[entry]
            if asked[label]:
                places[cursor[label]], entries[cursor[label]] = place, entry
                cursor[label] += 1
    for other in range(begin, n):
        cursor[labels[other]] = 0
    found[document] = n - begin
