"""Cue words: what stands near a mention and changes its meaning, such as "no", "madre con", "sospecha de", "grado".

The phrases of a language lie in `text/languages/`. Of phrases that overlap the longest counts, in all kinds together:
"no hodgkin" is no negation. A cue reaches over some words (its scope), and never beyond a word that ends scopes
("pero", a full stop) or the border of a sentence.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate, chain, compress, count, pairwise
from types import MappingProxyType
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from plant.text.folding import fold
from plant.text.languages import language_table

Side = Literal["before", "after", "either"]
Places = NDArray[np.int32]
"""Words [first, last) of each place, in reading order: [place, 2]."""

END = "end"
FAR = 1_000  # words: the distance of a cue that is not there, or cannot reach
PIECE = re.compile(r"[^\W\d_]+|\d+|[.;]")  # words may come split at digits ("g", "1") or whole ("g1")


@dataclass(frozen=True)
class CueKind:
    """A kind of cue: where it stands, seen from what it speaks of, and how many words it may be away."""

    name: str
    side: Side
    scope: int


@dataclass(frozen=True)
class Cues:
    """The cues of a language: kinds, and the kinds of each phrase (those that only look like cues have none)."""

    kinds: Mapping[str, CueKind]
    phrases: Mapping[tuple[str, ...], tuple[str, ...]]
    longest: int  # pieces of a phrase

    @cached_property
    def longest_from(self) -> Mapping[str, int]:
        """How many pieces the longest phrase has that begins with a piece: most words of a note begin none."""
        found: dict[str, int] = {}
        for first, *others in self.phrases:
            found[first] = max(found.get(first, 0), 1 + len(others))
        return found

    @cached_property
    def alone(self) -> frozenset[str]:
        """Phrases of one piece."""
        return frozenset(phrase[0] for phrase in self.phrases if len(phrase) == 1)

    @cached_property
    def beginnings(self) -> frozenset[tuple[str, ...]]:
        """The first two pieces of all longer phrases: few words of a note, with the next, are among them."""
        return frozenset(phrase[:2] for phrase in self.phrases if len(phrase) > 1)


@dataclass(frozen=True)
class FoundCues:
    """Where the cues of a note stand, by kind, and where scopes end."""

    kinds: Mapping[str, CueKind]
    places: Mapping[str, Places]
    ends: Places

    def before(self, kind: str, first: NDArray[np.integer]) -> NDArray[np.int32]:
        """How many words lie between the nearest cue before each place and the place; `FAR` where none reaches it."""
        places = self.places[kind]
        nearest = np.searchsorted(places[:, 1], first, side="right") - 1
        there = nearest >= 0
        return self._between(places[nearest * there, 1] if there.any() else first, first, there)

    def after(self, kind: str, last: NDArray[np.integer]) -> NDArray[np.int32]:
        """The same for the nearest cue that begins at `last` or behind it."""
        places = self.places[kind]
        nearest = np.searchsorted(places[:, 0], last, side="left")
        there = nearest < len(places)
        return self._between(last, places[nearest * there, 0] if there.any() else last, there)

    def reaches(self, kind: str, first: NDArray[np.integer], last: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether a cue of the kind, on its side and within its scope, speaks of words [first, last)."""
        found = self.kinds[kind]
        near = np.zeros(len(first), np.bool_)
        if found.side != "after":
            near |= self.before(kind, first) < found.scope
        if found.side != "before":
            near |= self.after(kind, last) < found.scope
        return near

    def _between(
        self, start: NDArray[np.integer], stop: NDArray[np.integer], there: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """The words from `start` to `stop` where a cue is there and no scope ends between them."""
        last_end = np.searchsorted(self.ends[:, 1], stop, side="right") - 1
        beginnings = np.append(self.ends[:, 0], -1)  # what -1 finds: no end before
        return np.where(there & (beginnings[last_end] < start), stop - start, FAR).astype(np.int32)


def cue_distances(words: Sequence[str], cues: Cues, *, sentences: NDArray[np.integer] | None = None) -> FoundCues:
    """The cues among folded words; `sentences` are the words at which sentences start, which end scopes too.

    >>> found = cue_distances("no se observa metastasis hepatica".split(), load_cues("es"))
    >>> found.before("negation", np.array([3])).tolist()
    [0]
    """
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in (*cues.kinds, END)}
    for first, last, kinds in _phrases(words, cues):
        for kind in kinds:
            found[kind].append((first, last))
    borders = [] if sentences is None else [(int(start), int(start)) for start in sentences]
    ends = sorted([*found.pop(END), *borders])
    return FoundCues(cues.kinds, {kind: _array(places) for kind, places in found.items()}, _array(ends))


@cache
def load_cues(language: str) -> Cues:
    """The cues of a language, by its name or two letters; none where there are none for it."""
    table = language_table(language).get("cues", {})
    kinds = {name: CueKind(name, cast(Side, kind["side"]), kind["scope"]) for name, kind in table.items()}
    phrases: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, kind in table.items():
        for phrase in kind["phrases"]:
            pieces = tuple(PIECE.findall(fold(phrase)))
            phrases[pieces] = (*phrases.get(pieces, ()), *(() if name == "none" else (name,)))
    speaking = {name: kind for name, kind in kinds.items() if name not in (END, "none")}
    return Cues(MappingProxyType(speaking), MappingProxyType(phrases), max(map(len, phrases), default=0))


def _phrases(words: Sequence[str], cues: Cues) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """First word, word behind the last and kinds of each phrase, the longest from left to right."""
    parted = tuple(map(_pieces, words))
    texts = tuple(chain.from_iterable(parted))
    ends, stop = tuple(accumulate(map(len, parted))), 0  # the pieces of word n end at ends[n]
    alone = compress(count(), map(cues.alone.__contains__, texts))
    begun = compress(count(), map(cues.beginnings.__contains__, pairwise(texts)))
    for place in sorted({*alone, *begun}):
        if place < stop:  # within the phrase before
            continue
        lengths = range(min(cues.longest_from[texts[place]], len(texts) - place), 0, -1)
        length = next((size for size in lengths if texts[place : place + size] in cues.phrases), 0)
        if length:
            stop = place + length
            yield bisect_right(ends, place), bisect_right(ends, stop - 1) + 1, cues.phrases[texts[place:stop]]


@lru_cache(maxsize=1 << 16)
def _pieces(word: str) -> tuple[str, ...]:
    return tuple(PIECE.findall(word))


def _array(places: Sequence[tuple[int, int]]) -> Places:
    return np.array(places, np.int32).reshape(-1, 2)
