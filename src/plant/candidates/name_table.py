"""Names with their codes, and what can be looked up in them: equal wordings, equal bags of stems, names of a code."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plant.candidates.nearest import NameIndex
from plant.candidates.wording import (
    VectorOptions,
    Wording,
    WordingVectors,
    Words,
    fit_vectors,
    read_words,
    spoken,
    vectorise,
)
from plant.store.ragged import Ragged, offsets, owners

BETWEEN = "\x1f"  # stands in no word
BINDING = """
a al com como con de del e el en la las lo los o par para por que se su sus u un una unas uno unos y
an and as at by for from in of on or the to with
"""
STOPS = frozenset(BINDING.split())  # Spanish and English words that say nothing by themselves, stemmed or not
ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8, "ix": 9, "x": 10}
LARGEST = 63  # numbers are bits of a word of 64


@dataclass(frozen=True)
class Named:
    """A name, a code of it, and how often coders marked it for the code; 0 where it is the book's."""

    wording: Wording
    code: int
    count: int


@dataclass(frozen=True)
class Lookup:
    """Codes and counts of each key, codes rising."""

    rows: Mapping[str, int]
    codes: Ragged
    counts: NDArray[np.int32]


@dataclass(frozen=True)
class NameTable:
    """Distinct names in rising order; each has its codes, in rising order, with counts beside them."""

    wordings: tuple[Wording, ...]
    codes: Ragged
    counts: NDArray[np.int32]
    vectors: WordingVectors

    def __len__(self) -> int:
        return len(self.wordings)

    @cached_property
    def words(self) -> Words:
        return read_words(self.vectors, self.wordings)

    @cached_property
    def index(self) -> NameIndex:
        return NameIndex(vectorise(self.vectors, self.words))

    @cached_property
    def marked(self) -> NDArray[np.int64]:
        """How often coders marked each name."""
        return np.bincount(owners(self.codes.starts), self.counts, minlength=len(self)).astype(np.int64)

    @cached_property
    def contents(self) -> Ragged:
        return content_numbers(self.vectors, self.words)

    @cached_property
    def numbers(self) -> NDArray[np.uint64]:
        return np.array([numbers_in(folded) for folded, _ in self.wordings], np.uint64)


def name_table(named: Iterable[Named], *, options: VectorOptions, beside: WordingVectors | None = None) -> NameTable:
    """The table of some names, in any order; a column is as rare as it is in these names and those `beside` them."""
    gathered: dict[Wording, dict[int, int]] = {}
    for name in named:
        found = gathered.setdefault(name.wording, {})
        found[name.code] = found.get(name.code, 0) + name.count
    wordings = tuple(sorted(gathered))
    rows = [sorted(gathered[wording].items()) for wording in wordings]
    codes = np.array([code for row in rows for code, _ in row], np.int32)
    counts = np.array([count for row in rows for _, count in row], np.int32)
    vectors = fit_vectors(wordings, options, beside=beside)
    return NameTable(wordings, Ragged(codes, offsets([len(row) for row in rows])), counts, vectors)


def rows_of(named: NameTable) -> Iterable[Named]:
    """What the table was made of."""
    for row, place in zip(owners(named.codes.starts).tolist(), range(len(named.counts)), strict=True):
        yield Named(named.wordings[row], int(named.codes.values[place]), int(named.counts[place]))


def names_by_group(table: NameTable, group: NDArray[np.int64], n_groups: int) -> Ragged:
    """The names of each group of codes; `group` of each code, -1 where it is in none."""
    names, groups = owners(table.codes.starts), group[table.codes.values]
    pairs = np.unique((groups * max(len(table), 1) + names)[groups >= 0])
    starts = np.searchsorted(pairs, np.arange(n_groups + 1) * max(len(table), 1)).astype(np.int64)
    return Ragged((pairs % max(len(table), 1)).astype(np.int32), starts)


def lookup(key_of: Callable[[Wording], str], *tables: NameTable, marked: bool) -> Lookup:
    """The codes of all names of a key: marked by coders with counts, or those that the book gives."""
    gathered: dict[str, dict[int, int]] = {}
    for table in tables:
        chosen = np.flatnonzero((table.counts > 0) == marked)
        columns = (owners(table.codes.starts)[chosen], table.codes.values[chosen], table.counts[chosen])
        for name, code, count in zip(*(column.tolist() for column in columns), strict=True):
            if key := key_of(table.wordings[name]):
                found = gathered.setdefault(key, {})
                found[code] = found.get(code, 0) + count
    rows = [sorted(found.items()) for found in gathered.values()]
    flat = np.array([pair for row in rows for pair in row], np.int32).reshape(-1, 2)
    numbers = {key: number for number, key in enumerate(gathered)}
    return Lookup(numbers, Ragged(flat[:, 0].copy(), offsets([len(row) for row in rows])), flat[:, 1].copy())


def folded_key(wording: Wording) -> str:
    """What two spans of the same folded words share."""
    return BETWEEN.join(wording[0])


def stemmed_key(wording: Wording) -> str:
    """What two spans of the same stems share, whatever their punctuation."""
    return BETWEEN.join(spoken(wording[1]))


def bag_key(wording: Wording) -> str:
    """What two spans of the same content share, in whatever order it stands."""
    return BETWEEN.join(sorted({stem for stem in spoken(wording[1]) if stem not in STOPS}))


def content_numbers(vectors: WordingVectors, words: Words) -> Ragged:
    """The distinct stems of each wording but the stops, by number, rising; unknown ones are above every known."""
    known = [vectors.stem_numbers[stop] for stop in STOPS if stop in vectors.stem_numbers]
    new = [number for number, stem in enumerate(words.letters[words.known :], words.known) if stem in STOPS]
    stops = np.array([*known, *new], np.int64)
    rows, stems = owners(words.stems.starts), words.stems.values
    kept = ~np.isin(stems, stops)
    pairs = np.unique(rows[kept] * np.int64(len(words.letters) + 1) + stems[kept])
    counted = np.bincount(pairs // (len(words.letters) + 1), minlength=len(words))
    return Ragged((pairs % (len(words.letters) + 1)).astype(np.int32), offsets(counted))


def numbers_in(words: Iterable[str]) -> int:
    """The numbers among some words, Roman or Arabic, as bits."""
    bits = 0
    for word in words:
        number = int(word) if word.isdecimal() and len(word) < 5 else ROMAN.get(word, -1)
        if number >= 0:
            bits |= 1 << min(number, LARGEST)
    return bits
