"""Which codes the words of a span may mean, and what speaks for each: the rows that the judge weighs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.candidates.composing import compose
from plant.candidates.name_features import Ways, features_of
from plant.candidates.name_table import Lookup, bag_key, folded_key, stemmed_key
from plant.candidates.names import Namer
from plant.candidates.nearest import best_of_each, nearest
from plant.candidates.wording import Wording
from plant.candidates.wordings_read import WordingsRead, read_wordings
from plant.store.ragged import Ragged, offsets, places

TOGETHER = 1024  # wordings that are read at a time: their cosines with all taught names are a table


@dataclass(frozen=True)
class Suggestions:
    """One row for each code that a span may mean, span by span.

    A code's number stands for `namer.codes`, then for `unlisted`: codes put together that neither notes nor book have.
    """

    span: NDArray[np.int32]
    code: NDArray[np.int32]
    features: NDArray[np.float32]  # [rows, NAME_FEATURES]
    unlisted: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.span)


def code_of(namer: Namer, suggestions: Suggestions, number: int) -> str:
    """The code that a number of the suggestions stands for."""
    listed = len(namer.codes)
    return namer.codes[number] if number < listed else suggestions.unlisted[number - listed]


def read_names(namer: Namer, spans: Sequence[Wording]) -> Suggestions:
    """The candidates of each span; a wording that stands in several spans is read once."""
    numbers = {wording: number for number, wording in enumerate(dict.fromkeys(spans))}
    read = _distinct(namer, tuple(numbers))
    starts = np.searchsorted(read.span, np.arange(len(numbers) + 1)).astype(np.int64)
    chosen = places(starts, np.array([numbers[wording] for wording in spans], np.int64))
    spans_of = np.repeat(np.arange(len(spans)), chosen.lengths)
    return Suggestions(
        span=spans_of.astype(np.int32),
        code=read.code[chosen.values],
        features=read.features[chosen.values],
        unlisted=read.unlisted,
    )


def _distinct(namer: Namer, wordings: tuple[Wording, ...]) -> Suggestions:
    """The candidates of distinct wordings, some at a time: all notes of a corpus may be read at once."""
    firsts = range(0, max(len(wordings), 1), TOGETHER)
    read = [_together(namer, wordings[first : first + TOGETHER]) for first in firsts]
    unlisted = dict.fromkeys(code for some in read for code in some.unlisted)
    numbers = {code: len(namer.codes) + place for place, code in enumerate(unlisted)}
    return Suggestions(
        span=np.concatenate([some.span + first for some, first in zip(read, firsts, strict=True)], dtype=np.int32),
        code=np.concatenate([_renumbered(namer, some, numbers) for some in read]),
        features=np.concatenate([some.features for some in read]),
        unlisted=tuple(numbers),
    )


def _renumbered(namer: Namer, some: Suggestions, numbers: Mapping[str, int]) -> NDArray[np.int32]:
    table = np.array([numbers[code] for code in some.unlisted], np.int32)
    listed = np.arange(len(namer.codes), dtype=np.int32)
    return np.concatenate([listed, table])[some.code]


def _together(namer: Namer, wordings: tuple[Wording, ...]) -> Suggestions:
    read = read_wordings(namer, wordings)
    rows, unlisted = _rows(namer, read)
    features = features_of(namer, read, rows, unlisted)
    return Suggestions(rows.wording.astype(np.int32), rows.code.astype(np.int32), features, unlisted)


def _rows(namer: Namer, read: WordingsRead) -> tuple[Ways, tuple[str, ...]]:
    """Every (wording, code) that is found in any way, wordings rising, then codes; and the ways."""
    composed = compose(namer, read.probabilities)
    found = [("composed", composed.wording, composed.code, np.zeros(len(composed.code)))]
    found += _equal(namer.lookups, read.wordings)
    found += _nearest(namer, read)
    return _merged(found, len(namer.codes) + len(composed.unlisted) + 1), composed.unlisted


Found = tuple[str, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""A way, and for each find the wording, the code and the count."""

LOOKED_UP = {
    "folded": folded_key,
    "stemmed": stemmed_key,
    "bag": bag_key,
    "book": stemmed_key,
    "book bag": bag_key,
    "further": stemmed_key,
    "further bag": bag_key,
}


def _equal(lookups: Mapping[str, Lookup], wordings: Sequence[Wording]) -> list[Found]:
    keys = {key: [key(wording) for wording in wordings] for key in set(LOOKED_UP.values())}
    return [(way, *_looked_up(table, keys[LOOKED_UP[way]])) for way, table in lookups.items()]


def _looked_up(table: Lookup, keys: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    hits = [(number, table.rows[key]) for number, key in enumerate(keys) if key in table.rows]
    wording, row = np.array(hits, np.int64).reshape(-1, 2).T
    chosen = places(table.codes.starts, row)
    codes = table.codes.values[chosen.values].astype(np.int64)
    return np.repeat(wording, chosen.lengths), codes, table.counts[chosen.values].astype(np.float64)


def _nearest(namer: Namer, read: WordingsRead) -> list[Found]:
    """The codes of the nearest names of both tables together."""
    options = namer.options
    taught = best_of_each(read.cosine, count=options.nearest, least=options.least_cosine)
    index = namer.further.index
    further = nearest(index, read.further_vectors, count=options.nearest, least=options.least_cosine)
    names = np.concatenate([taught[0], np.where(further[0] < 0, -1, further[0] + len(namer.taught))], axis=1)
    found = np.concatenate([taught[1], further[1]], axis=1)
    best = np.argsort(-found, axis=1, kind="stable")[:, : options.nearest]
    names = np.take_along_axis(names, best, 1)
    wording, place = np.nonzero(names >= 0)
    chosen = names[wording, place].astype(np.int64)
    own = chosen < len(namer.taught)
    return [
        ("nearest", *_codes_of(namer.taught.codes, wording[own], chosen[own])),
        ("nearest", *_codes_of(namer.further.codes, wording[~own], chosen[~own] - len(namer.taught))),
    ]


def _codes_of(
    codes: Ragged, wording: NDArray[np.int64], names: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    found = places(codes.starts, names)
    values = codes.values[found.values].astype(np.int64)
    return np.repeat(wording, found.lengths), values, np.zeros(len(values))


def _merged(found: Sequence[Found], n_codes: int) -> Ways:
    """Each (wording, code) once, with the ways in which it was found and the counts of equal wordings."""
    keys = np.concatenate([wording * n_codes + code for _, wording, code, _ in found])
    distinct, row = np.unique(keys, return_inverse=True)
    ways = {way: np.zeros(len(distinct), np.bool_) for way, *_ in found}
    counts = {way: np.zeros(len(distinct), np.float32) for way in ("folded", "stemmed", "bag")}
    starts = offsets([len(code) for _, _, code, _ in found])
    for number, (way, _, _, count) in enumerate(found):
        own = row[starts[number] : starts[number + 1]]
        ways[way][own] = True
        if way in counts:
            counts[way][own] = count  # a lookup has each code of a wording once
    return Ways(distinct // n_codes, distinct % n_codes, ways, counts)
