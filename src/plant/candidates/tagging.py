"""What a tagger sees of each word, and the chain of tags that it believes in.

A feature is a template (what, how many words away) with the value found there, one 64-bit key. All that follows from
the spelling of a word is worked out once for each distinct word.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.candidates.chain import Chain, Sequences, best_paths, fit_chain, marginals
from plant.candidates.keys import free_slots, slot_of
from plant.candidates.packing import Arrays, packed_strings, part, under, unpacked_strings
from plant.errors import ArtifactError
from plant.store.checks import check_finite, check_shape
from plant.types import Progress, silent

OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
N_TAGS = 5
ABSENT, BEYOND, RARE, FIRST_KNOWN = range(4)  # values: says nothing; outside of the sentence; seldom seen; others
REMEMBERED = 1 << 16  # distinct words whose values are kept
DIGITS = re.compile(r"\d")
RUNS = re.compile(r"(.)\1+")

SPELLINGS = ("word", "stem", "shape", "prefix3", "prefix5", "suffix3", "suffix4", "suffix6", "capitals")
CLUSTERS = ("cluster0", "cluster1", "cluster2")
DICTIONARIES = ("folded", "folded-belief", "stemmed", "stemmed-belief")
RATES = ("within", "first", "last")
KINDS = (*SPELLINGS, *CLUSTERS, *DICTIONARIES, *RATES)
NEAR = ("word", "stem", "cluster0", "cluster1", *DICTIONARIES)

Template = tuple[tuple[str, int], ...]
"""What is seen, and how many words further on; two of them are seen together."""

TEMPLATES: tuple[Template, ...] = (
    *(((kind, 0),) for kind in KINDS),
    *(((kind, offset),) for kind, offset in product((*NEAR, *RATES), (-2, -1, 1, 2))),
    *((("stem", offset),) for offset in (-3, 3)),
    *((("stem", left), ("stem", right)) for left, right in ((-1, 0), (0, 1), (-1, 1))),
)


def spellings(surface: str, folded: str, stem: str) -> tuple[str, ...]:
    """The values of `SPELLINGS` for one word; empty where it has none."""
    word = DIGITS.sub("0", folded)
    long = len(word) > 2
    affixes = (word[:3], word[:5], word[-3:], word[-4:], word[-6:]) if long else ("",) * 5
    return (word, DIGITS.sub("0", stem), shape(surface), *affixes, surface if surface.isupper() else "")


def shape(surface: str) -> str:
    """Capitals, small letters and digits as X, x and 0, runs of them as two."""
    kinds = ["X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in surface]
    return RUNS.sub(r"\1\1", "".join(kinds))


@dataclass(frozen=True)
class Alphabet:
    """The values of each kind of spelling that the fitted notes have, in the order of the alphabet."""

    kinds: tuple[tuple[str, ...], ...]

    def values(self, surfaces: Sequence[str], folded: Sequence[str], stems: Sequence[str]) -> NDArray[np.int32]:
        """The values of each word, [kinds, words]."""
        rows = [self._of_word(*word) for word in zip(surfaces, folded, stems, strict=True)]
        return np.array(rows, np.int32).reshape(-1, len(SPELLINGS)).T

    def pack(self) -> Arrays:
        """Everything, as arrays."""
        named = zip(SPELLINGS, self.kinds, strict=True)
        return {key: array for name, strings in named for key, array in packed_strings(name, strings).items()}

    @cached_property
    def _of_word(self) -> Any:
        numbers = [{string: place for place, string in enumerate(strings, FIRST_KNOWN)} for strings in self.kinds]

        @lru_cache(maxsize=REMEMBERED)
        def of_word(surface: str, folded: str, stem: str) -> tuple[int, ...]:
            values = zip(numbers, spellings(surface, folded, stem), strict=True)
            return tuple([number.get(value, RARE) if value else ABSENT for number, value in values])

        return of_word


def gather_alphabet(words: Mapping[tuple[str, str, str], int], *, min_count: int) -> Alphabet:
    """All spellings of counted words (as written, folded, stemmed) that stand often enough in the notes."""
    counters: list[Counter[str]] = [Counter() for _ in SPELLINGS]
    for word, count in words.items():
        for counter, value in zip(counters, spellings(*word), strict=True):
            counter[value] += count
    kept = (sorted(value for value, count in counter.items() if value and count >= min_count) for counter in counters)
    return Alphabet(tuple(map(tuple, kept)))


def unpack_alphabet(arrays: Mapping[str, NDArray[Any]]) -> Alphabet:
    """What `pack` took apart."""
    return Alphabet(tuple(unpacked_strings(name, arrays) for name in SPELLINGS))


@dataclass(frozen=True)
class FeatureTable:
    """Which features there are: keys in rising order, a feature's column is the place of its key."""

    keys: NDArray[np.int64]
    sizes: NDArray[np.int64]  # of each kind: values are smaller

    def sequences(self, values: NDArray[np.int32], starts: NDArray[np.int64]) -> Sequences:
        """The features of each word of some sentences; `values` are [kinds, words]."""
        columns, row_starts = _columns(values, starts, TEMPLATE_ROWS, self.sizes, *self._slots)
        return Sequences(columns, row_starts, starts)

    @cached_property
    def _slots(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        slots = free_slots(len(self.keys))
        columns = np.zeros(len(slots), np.int32)
        _fill(self.keys, slots, columns)
        return slots, columns


def _template_rows(templates: Sequence[Template]) -> NDArray[np.int32]:
    """Kind and offset of both sides; a template of one side has kind -1 on the other."""
    sides = [[(KINDS.index(kind), offset) for kind, offset in template] for template in templates]
    return np.array([[*side[0], *(side[1] if len(side) > 1 else (-1, 0))] for side in sides], np.int32)


TEMPLATE_ROWS = _template_rows(TEMPLATES)
KEY_BITS = 54  # of a value, or of two values together; the rest is the template


def gather_features(values: NDArray[np.int32], starts: NDArray[np.int64], *, min_count: int) -> FeatureTable:
    """The features that stand at least so often in some sentences."""
    sizes = values.max(1, initial=FIRST_KNOWN).astype(np.int64) + 1
    kept = []
    for row in range(len(TEMPLATE_ROWS)):
        keys, counts = np.unique(_keys(values, starts, TEMPLATE_ROWS, row, sizes), return_counts=True)
        kept.append(keys[(counts >= min_count) & (keys >= 0)])
    return FeatureTable(np.concatenate(kept), sizes)


@dataclass(frozen=True)
class Tagger:
    """What is seen of words, and the weights of it."""

    alphabet: Alphabet
    features: FeatureTable
    chain: Chain

    def read(
        self, values: NDArray[np.int32], starts: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """P(tag) of each word of some sentences, and the likeliest tags."""
        sequences = self.features.sequences(values, starts)
        return marginals(self.chain, sequences), best_paths(self.chain, sequences)

    def pack(self) -> Arrays:
        """Everything, as arrays."""
        chain = {"transitions": self.chain.transitions, "starts": self.chain.starts, "ends": self.chain.ends}
        features = {"keys": self.features.keys, "sizes": self.features.sizes, "weights": self.chain.weights}
        return {**under("alphabet", self.alphabet.pack()), **under("chain", chain), **under("features", features)}


def unpack_tagger(arrays: Mapping[str, NDArray[Any]]) -> Tagger:
    """What `pack` took apart."""
    features, chain = part("features", arrays), part("chain", arrays)
    check_shape("features.keys", features["keys"], (len(features["keys"]),), "i")
    check_shape("features.sizes", features["sizes"], (len(KINDS),), "i")
    check_shape("features.weights", features["weights"], (len(features["keys"]), N_TAGS))
    check_finite({"features.weights": features["weights"]})
    check_shape("chain.transitions", chain["transitions"], (N_TAGS, N_TAGS))
    for name in ("starts", "ends"):
        check_shape(f"chain.{name}", chain[name], (N_TAGS,))
    moves = allowed_moves()
    for name, allowed in (("transitions", moves), ("starts", moves[OUTSIDE]), ("ends", moves[:, OUTSIDE])):
        if not np.where(allowed, np.isfinite(chain[name]), np.isneginf(chain[name])).all():
            raise ArtifactError(f"chain.{name} of the folder allows what must not follow: make it again")
    table = FeatureTable(features["keys"], features["sizes"])
    weighed = Chain(features["weights"], chain["transitions"], chain["starts"], chain["ends"])
    return Tagger(unpack_alphabet(part("alphabet", arrays)), table, weighed)


def allowed_moves() -> NDArray[np.bool_]:
    """Which tag may follow which."""
    opens, closes = (INSIDE, END), (OUTSIDE, BEGIN, SINGLE)
    after = {OUTSIDE: closes, BEGIN: opens, INSIDE: opens, END: closes, SINGLE: closes}
    return np.array([[tag in after[before] for tag in range(N_TAGS)] for before in range(N_TAGS)])


def fit_tagger(
    alphabet: Alphabet,
    values: NDArray[np.int32],
    starts: NDArray[np.int64],
    tags: NDArray[np.int8],
    *,
    min_count: int,
    l1: float,
    l2: float,
    iterations: int,
    progress: Progress = silent,
) -> Tagger:
    """Fit a chain to tagged sentences and keep the features that came to weigh anything."""
    table = gather_features(values, starts, min_count=min_count)
    chain = fit_chain(
        table.sequences(values, starts),
        tags,
        n_features=len(table.keys),
        n_tags=N_TAGS,
        allowed=allowed_moves(),
        allowed_starts=allowed_moves()[OUTSIDE],  # a sentence begins and ends as if there were words outside around it
        allowed_ends=allowed_moves()[:, OUTSIDE],
        l1=l1,
        l2=l2,
        iterations=iterations,
        progress=progress,
    )
    weighs = (chain.weights != 0).any(1)
    kept = Chain(chain.weights[weighs], chain.transitions, chain.starts, chain.ends)
    return Tagger(alphabet, FeatureTable(table.keys[weighs], table.sizes), kept)


def tags_of(spans: Collection[tuple[int, int]], n_words: int, sentences: NDArray[np.integer]) -> NDArray[np.int8]:
    """The tags of a note's words; of spans that overlap the longest counts, none over two sentences."""
    tags = np.zeros(n_words, np.int8)
    for first, last in sorted(spans, key=lambda span: (span[0] - span[1], span)):
        within = np.searchsorted(sentences, first, side="right") == np.searchsorted(sentences, last - 1, side="right")
        if within and not tags[first:last].any():
            tags[first:last] = INSIDE
            tags[first], tags[last - 1] = BEGIN, END
            tags[first] = SINGLE if last - first == 1 else BEGIN
    return tags


def spans_of_tags(tags: NDArray[np.int8]) -> NDArray[np.int32]:
    """First and last (excluded) word of each tagged mention, [mentions, 2]."""
    firsts, lasts = np.flatnonzero((tags == BEGIN) | (tags == SINGLE)), np.flatnonzero((tags == END) | (tags == SINGLE))
    return np.stack([firsts, lasts + 1], 1).astype(np.int32)


@njit(cache=True)
def _value(values, kind, place, start, end):  # type: ignore[no-untyped-def]
    if place < start or place >= end:
        return np.int64(BEYOND)
    return np.int64(values[kind, place])


@njit(cache=True)
def _key(values, place, start, end, templates, row, sizes):  # type: ignore[no-untyped-def]
    """The feature of a template at a word, -1 where it has none."""
    value = _value(values, templates[row, 0], place + templates[row, 1], start, end)
    if value == ABSENT or value >= sizes[templates[row, 0]]:
        return np.int64(-1)
    other_kind = templates[row, 2]
    if other_kind >= 0:
        other = _value(values, other_kind, place + templates[row, 3], start, end)
        if other == ABSENT or other >= sizes[other_kind]:
            return np.int64(-1)
        value = value * sizes[other_kind] + other
    return (np.int64(row) << KEY_BITS) | value


@njit(cache=True)
def _keys(values, starts, templates, row, sizes):  # type: ignore[no-untyped-def]
    keys = np.full(values.shape[1], -1, np.int64)
    for sentence in range(len(starts) - 1):
        for place in range(starts[sentence], starts[sentence + 1]):
            keys[place] = _key(values, place, starts[sentence], starts[sentence + 1], templates, row, sizes)
    return keys


@njit(cache=True)
def _fill(keys, slots, columns):  # type: ignore[no-untyped-def]
    for column in range(len(keys)):
        slot = slot_of(slots, keys[column])
        slots[slot], columns[slot] = keys[column], column


@njit(cache=True)
def _columns(values, starts, templates, sizes, slots, slot_columns):  # type: ignore[no-untyped-def]
    """The columns of each word's features, one word after the other, and where each word's start."""
    n_words, n_templates = values.shape[1], len(templates)
    columns, row_starts = np.empty(n_words * n_templates, np.int32), np.zeros(n_words + 1, np.int64)
    count = 0
    for sentence in range(len(starts) - 1):
        start, end = starts[sentence], starts[sentence + 1]
        for place in range(start, end):
            for row in range(n_templates):
                key = _key(values, place, start, end, templates, row, sizes)
                if key >= 0:
                    slot = slot_of(slots, key)
                    if slots[slot] == key:
                        columns[count] = slot_columns[slot]
                        count += 1
            row_starts[place + 1] = count
    return columns[:count].copy(), row_starts
