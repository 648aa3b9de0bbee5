"""Wordings as sparse vectors: TF-IDF over stems, pairs of stems, ends, numbers and grades, and letters within words.

A wording is the words of a span, folded and stemmed. Marks of punctuation do not count. Columns are numbered family by
family, so a column of one family is found by a number (a stem, a pair of stems) and no string is ever put together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.store.ragged import Ragged, offsets, owners
from plant.text.grades import find_grades

Wording = tuple[tuple[str, ...], tuple[str, ...]]
"""The words of a span or name: folded, and stemmed."""

REMEMBERED = 1 << 14  # wordings whose signs are kept
GRADING = ("g", "dif", "ind", "und", "high", "low", "alto", "bajo", "fu", "isup", "estad", "stag")  # begin every grade


@dataclass(frozen=True)
class VectorOptions:
    """How much the families weigh."""

    letters: float = 1.3
    sizes: tuple[int, ...] = (4,)  # of runs of letters within a word
    unknown: float = 4.0  # what a stem that no name has weighs: it makes a wording less like every name
    pairs: float = 0.5
    ends: float = 1.0
    signs: float = 2.0


@dataclass(frozen=True)
class WordingVectors:
    """The columns, in the order of the families, and what each weighs; `frequencies` out of `n_names` names have it."""

    stems: tuple[str, ...]  # sorted
    runs: tuple[str, ...]  # of letters, sorted
    signs: tuple[str, ...]  # sorted
    pairs: NDArray[np.int64]  # first stem * number of stems + second stem, rising
    skips: NDArray[np.int64]
    frequencies: NDArray[np.int32]
    n_names: int
    options: VectorOptions

    @cached_property
    def stem_numbers(self) -> dict[str, int]:
        return {stem: number for number, stem in enumerate(self.stems)}

    @cached_property
    def run_numbers(self) -> dict[str, int]:
        return {run: number for number, run in enumerate(self.runs)}

    @cached_property
    def sign_numbers(self) -> dict[str, int]:
        return {sign: number for number, sign in enumerate(self.signs)}

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """Where each family starts: stems, first stems, last stems, pairs, skips, signs, runs; and the end."""
        n = len(self.stems)
        return offsets([n, n, n, len(self.pairs), len(self.skips), len(self.signs), len(self.runs)])

    @cached_property
    def idf(self) -> NDArray[np.float32]:
        """How rare each column is, without the family's weight."""
        return (1 + np.log((1 + self.n_names) / (1 + self.frequencies))).astype(np.float32)

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """Rarity times the weight of the family."""
        given = self.options
        families = [1, given.ends, given.ends, given.pairs, given.pairs, given.signs, given.letters]
        return self.idf * np.repeat(families, np.diff(self.firsts)).astype(np.float32)


@dataclass(frozen=True)
class Words:
    """Wordings as numbers of stems; those that nobody knows have numbers from `known` on."""

    stems: Ragged
    letters: tuple[str, ...]  # the stem of each number
    signs: tuple[tuple[str, ...], ...]  # of each wording
    known: int

    def __len__(self) -> int:
        return len(self.stems)


def is_word(word: str) -> bool:
    """Whether it is more than a mark of punctuation."""
    return word[:1].isalnum()


def spoken(words: Iterable[str]) -> tuple[str, ...]:
    """Words without marks of punctuation."""
    return tuple([word for word in words if is_word(word)])


def fit_vectors(
    wordings: Sequence[Wording], options: VectorOptions | None = None, *, beside: WordingVectors | None = None
) -> WordingVectors:
    """The columns of all given wordings, each of which counts as one name, and as often as names `beside` have them."""
    stems = tuple(sorted({stem for _, stems in wordings for stem in stems if is_word(stem)}))
    options = options or VectorOptions()
    runs = tuple(sorted({run for stem in stems for run in runs_of(stem, options.sizes)}))
    signs = tuple(sorted({sign for folded, _ in wordings for sign in signs_of(folded)}))
    none = np.empty(0, np.int64)
    empty = WordingVectors(stems, runs, signs, none, none, np.zeros(0, np.int32), 0, options)
    words = read_words(empty, wordings)
    pairs = [np.unique(_pairs(words, apart)[1]) for apart in (1, 2)]
    unweighed = replace(empty, pairs=pairs[0], skips=pairs[1])
    found = _counted(unweighed, words)
    frequencies = np.bincount(found.indices, minlength=found.shape[1]).astype(np.int32)
    counted = replace(unweighed, frequencies=frequencies, n_names=len(wordings))
    return counted if beside is None else _counted_beside(counted, beside)


def _counted_beside(vectors: WordingVectors, other: WordingVectors) -> WordingVectors:
    """The same columns, each with the names of the other that have it."""
    more = vectors.frequencies.copy()
    for family, numbers in enumerate(_numbers_in(vectors, other)):
        here = np.flatnonzero(numbers >= 0)
        more[vectors.firsts[family] + here] += other.frequencies[other.firsts[family] + numbers[here]]
    return replace(vectors, frequencies=more, n_names=vectors.n_names + other.n_names)


def _numbers_in(vectors: WordingVectors, other: WordingVectors) -> list[NDArray[np.int64]]:
    """For each family, the number in the other of each column, -1 where it has none."""
    stems = np.array([other.stem_numbers.get(stem, -1) for stem in vectors.stems], np.int64)
    signs = np.array([other.sign_numbers.get(sign, -1) for sign in vectors.signs], np.int64)
    runs = np.array([other.run_numbers.get(run, -1) for run in vectors.runs], np.int64)
    pairs = []
    for mine, theirs in ((vectors.pairs, other.pairs), (vectors.skips, other.skips)):
        first, second = stems[mine // max(len(stems), 1)], stems[mine % max(len(stems), 1)]
        keys = np.where((first < 0) | (second < 0), -1, first * len(other.stems) + second)
        places, there = _places(theirs, keys)
        pairs.append(np.where(there, places, -1))
    return [stems, stems, stems, *pairs, signs, runs]


def read_words(
    vectors: WordingVectors, wordings: Sequence[Wording], signs: Sequence[tuple[str, ...]] | None = None
) -> Words:
    """The stems of each wording by number; `signs` where another reading has found them."""
    known = vectors.stem_numbers
    numbers = {stem: known.get(stem, -1) for _, stems in wordings for stem in stems if is_word(stem)}
    new = [stem for stem, number in numbers.items() if number < 0]
    numbers |= {stem: len(known) + place for place, stem in enumerate(new)}
    rows = [[numbers[stem] for stem in stems if stem in numbers] for _, stems in wordings]
    flat = np.array([number for row in rows for number in row], np.int64)
    signs = [signs_of(folded) for folded, _ in wordings] if signs is None else signs
    return Words(Ragged(flat, offsets([len(row) for row in rows])), (*vectors.stems, *new), tuple(signs), len(known))


def vectorise(vectors: WordingVectors, words: Words) -> csr_array:
    """One row of length 1 (less where stems are unknown) for each wording; no row at all is a row of zeros."""
    found = _counted(vectors, words)
    data = (1 + np.log(found.data)).astype(np.float32) * vectors.weights[found.indices]
    rows = owners(found.indptr)
    unknown = np.bincount(owners(words.stems.starts), words.stems.values >= words.known, minlength=len(words))
    squares = np.bincount(rows, data.astype(np.float64) ** 2, minlength=len(words))
    lengths = np.sqrt(squares + vectors.options.unknown**2 * unknown)
    data = (data / np.where(lengths > 0, lengths, 1)[rows]).astype(np.float32)
    return csr_array((data, found.indices.astype(np.int32), found.indptr.astype(np.int64)), shape=found.shape)


def _counted(vectors: WordingVectors, words: Words) -> csr_array:
    """How often each wording has each column."""
    rows, columns = map(np.concatenate, zip(*_columns(vectors, words), strict=True))
    order = np.argsort(rows * np.int64(vectors.firsts[-1] + 1) + columns, kind="stable")
    shape = (len(words), int(vectors.firsts[-1]))
    counted = csr_array((np.ones(len(rows), np.float32), (rows[order], columns[order])), shape=shape)
    counted.sum_duplicates()
    return counted


def _columns(vectors: WordingVectors, words: Words) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows and columns, family by family."""
    first = vectors.firsts
    stems, starts = words.stems.values, words.stems.starts
    rows = owners(starts)
    full = np.flatnonzero(np.diff(starts) > 0)
    known = stems < words.known
    heads, tails = stems[starts[full]], stems[starts[full + 1] - 1]
    found = [(rows[known], stems[known] + first[0])]
    for ends, start in ((heads, first[1]), (tails, first[2])):
        inside = ends < words.known
        found.append((full[inside], ends[inside] + start))
    for apart, kept, start in ((1, vectors.pairs, first[3]), (2, vectors.skips, first[4])):
        found.append(_known_pairs(*_pairs(words, apart), kept, start))
    signs, runs = _signs(vectors, words), _runs(vectors, words)
    found.append((owners(signs.starts), signs.values + first[5]))
    found.append((np.repeat(rows, runs.lengths), runs.values + first[6]))
    return found


def _pairs(words: Words, apart: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and numbers of the pairs of stems that stand `apart` words from each other."""
    stems, rows = words.stems.values, owners(words.stems.starts)
    before, after = stems[:-apart], stems[apart:]
    both = (rows[:-apart] == rows[apart:]) & (before < words.known) & (after < words.known)
    return rows[:-apart][both], before[both] * words.known + after[both]


def _known_pairs(
    rows: NDArray[np.int64], pairs: NDArray[np.int64], kept: NDArray[np.int64], start: np.int64
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places, there = _places(kept, pairs)
    return rows[there], places[there] + start


def _places(kept: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each wanted number stands among rising ones, and whether it does."""
    places = np.searchsorted(kept, wanted)
    there = places < len(kept)
    there[there] = kept[places[there]] == wanted[there]
    return places, there


def _signs(vectors: WordingVectors, words: Words) -> Ragged:
    """The known signs of each wording."""
    numbers = vectors.sign_numbers
    return _ragged([[numbers[sign] for sign in signs if sign in numbers] for signs in words.signs])


def _runs(vectors: WordingVectors, words: Words) -> Ragged:
    """The known runs of letters of each word, in reading order; a word that stands often is looked up once."""
    distinct, places = np.unique(words.stems.values, return_inverse=True)
    numbers, sizes = vectors.run_numbers, vectors.options.sizes
    letters = [words.letters[number] for number in distinct.tolist()]
    return _ragged([[numbers[run] for run in runs_of(word, sizes) if run in numbers] for word in letters]).take(places)


def _ragged(rows: list[list[int]]) -> Ragged:
    return Ragged(np.array([number for row in rows for number in row], np.int64), offsets([len(row) for row in rows]))


def runs_of(word: str, sizes: Sequence[int]) -> list[str]:
    """Runs of so many letters of a word between its borders; a number has none."""
    if has_digit(word):
        return []
    bordered = f"<{word}>"
    return [bordered[at : at + size] for size in sizes for at in range(len(bordered) - size + 1)]


def has_digit(word: str) -> bool:
    """Whether the word is a number, or has one in it."""
    return not word.isalpha() and any(letter.isdigit() for letter in word)


@lru_cache(maxsize=REMEMBERED)
def signs_of(folded: tuple[str, ...]) -> tuple[str, ...]:
    """Shapes of words with digits, grades however they are written ("G2", "poorly differentiated"), M1 or stage IV."""
    shapes = [shape_of(word) for word in folded if has_digit(word)]
    if not shapes and not any(word.startswith(GRADING) for word in folded):
        return ()
    found = find_grades(folded)
    grades = [f"grade {digit}" for grade in found if (digit := grade.digit)]
    return (*shapes, *grades, *(["spread"] if any(grade.metastatic for grade in found) else []))


def shape_of(word: str) -> str:
    """The word with every digit as 0."""
    return "".join(["0" if letter.isdigit() else letter for letter in word])
