"""The dictionary: wordings that coders marked and names of codes, found in a note word for word; the longest wins.

What a wording says of a code is how often it was marked for the code where it stands (in a note without marks: how
often the note has the code), every fitted note searched as if it were new: without the wordings that it alone has
taught. A wording within a longer one is counted apart: "the longest wins" is believed as far as coders kept to it.
Where no wording of a code stands, the code follows by how frequent it is.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.synonyms import read_synonyms, spoken
from plant.data.corpus import Documents, TrainingView
from plant.errors import InputError
from plant.evaluate.scores.of_texts import Sparse, Usual, sparse_of
from plant.recipe import schema
from plant.store.checks import check_length, check_numbers, check_shape, check_shares, check_starts
from plant.store.ragged import Ragged
from plant.systems.system import CONTRIBUTION, Growth, Known, PackedSystem, under
from plant.text.folding import fold
from plant.text.tokenizer import tokenize
from plant.text.vocab import UNKNOWN, Vocab
from plant.types import Progress, silent

TAG = "dictionary"
RIGHT, WRONG = 1.0, 0.5  # added to the counts of every entry: one that never came again; see docs/log.md
RIGHT_WITHIN, WRONG_WITHIN = 0.2, 1.0  # the same for a wording within a longer one
FREQUENCY = 0.01  # how far the frequency of a code counts beside its wordings: it orders codes that have none
ACRONYM = 5  # letters: a longer word in capitals is a heading's, and means the same in lower case


@dataclass(frozen=True)
class Wording:
    """Folded words; `capitals` where only capitals count: "SE" is a tumour's abbreviation, "se" a pronoun."""

    words: tuple[str, ...]
    capitals: bool = False


Entry = tuple[Wording, int]
"""A wording, and the label that it speaks for."""


@dataclass(frozen=True)
class Surface:
    """The words of a note: folded, and whether each is written in capitals."""

    words: tuple[str, ...]
    capitals: tuple[bool, ...]

    def wording(self, first: int, last: int) -> Wording:
        """The wording of some words as a coder marked them."""
        words = self.words[first:last]
        return Wording(words, len(words) == 1 and self.capitals[first] and len(words[0]) <= ACRONYM)


@dataclass(frozen=True)
class Match:
    """A wording, by number, in words [first, last) of a note; `within` a longer one or not."""

    wording: int
    first: int
    last: int
    within: bool = False


@dataclass(frozen=True)
class Entries:
    """Wordings, and what they say: entry e is wording `wording[e]` for label `labels[e]`.

    The wording was found so often in the fitted notes, and so often it was right: first column by itself, second
    column within a longer wording.
    """

    wordings: tuple[Wording, ...]
    wording: NDArray[np.int32]
    labels: NDArray[np.int32]
    found: NDArray[np.int32]  # [entry, 2]
    right: NDArray[np.int32]
    only: NDArray[np.int64]  # the one fitted note that taught the entry, or -1; not kept

    @cached_property
    def numbers(self) -> Mapping[Wording, int]:
        """The number of each wording."""
        return {wording: number for number, wording in enumerate(self.wordings)}

    @cached_property
    def lengths(self) -> Mapping[str, tuple[int, ...]]:
        """How many words wordings with this first word have, most first."""
        lengths: dict[str, set[int]] = defaultdict(set)
        for wording in self.wordings:
            lengths[wording.words[0]].add(len(wording.words))
        return {word: tuple(sorted(found, reverse=True)) for word, found in lengths.items()}

    @cached_property
    def of_wording(self) -> tuple[tuple[int, ...], ...]:
        """The entries of each wording."""
        entries: list[list[int]] = [[] for _ in self.wordings]
        for entry, number in enumerate(self.wording.tolist()):
            entries[number].append(entry)
        return tuple(map(tuple, entries))

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """How often each entry is right, by itself and within a longer one, drawn to what one without counts is."""
        right, wrong = np.array([RIGHT, RIGHT_WITHIN]), np.array([WRONG, WRONG_WITHIN])
        return (self.right + right) / (self.found + right + wrong)


def matches(surface: Surface, entries: Entries, without: Collection[int] = ()) -> Iterator[Match]:
    """The longest wordings from left to right, each followed by those within it; those `without` are not looked for."""
    place = 0
    while place < len(surface.words):
        longest = next(_beginning_at(place, surface, entries, without), None)
        if longest:
            yield longest
            yield from _within(longest, surface, entries, without)
        place = longest.last if longest else place + 1


def _within(longest: Match, surface: Surface, entries: Entries, without: Collection[int]) -> Iterator[Match]:
    for first in range(longest.first, longest.last):
        for match in _beginning_at(first, surface, entries, without):
            if match.last <= longest.last and match != longest:
                yield replace(match, within=True)


def _beginning_at(first: int, surface: Surface, entries: Entries, without: Collection[int]) -> Iterator[Match]:
    """The wordings that begin at a word, the longest first."""
    for length in entries.lengths.get(surface.words[first], ()):
        last = first + length
        words = surface.words[first:last]
        for capitals in (False, True) if all(surface.capitals[first:last]) else (False,):
            number = entries.numbers.get(Wording(words, capitals)) if len(words) == length else None
            if number is not None and number not in without:
                yield Match(number, first, last)


@dataclass(frozen=True)
class DictionaryReading:
    """Scores, and the places of the wordings behind them."""

    text_scores: Sparse
    places: tuple[tuple["Place", ...], ...]  # of each document
    lengths: tuple[int, ...]  # words of each document

    @property
    def scores(self) -> NDArray[np.float32]:
        return self.text_scores.filled()

    @property
    def known(self) -> int:
        return self.text_scores.n_labels

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        if explainer not in ("", CONTRIBUTION):
            raise InputError(f"a dictionary explains itself by {CONTRIBUTION!r} only, not by {explainer!r}")
        weights = np.zeros((len(labels), self.lengths[row]), np.float32)
        asked = {label: number for number, label in enumerate(labels)}
        for place in self.places[row]:
            if place.label in asked:
                words = weights[asked[place.label], place.first : place.last]
                np.maximum(words, place.share, out=words)
        return weights


@dataclass(frozen=True)
class Place:
    """Words [first, last) of a note that say so much for a label."""

    label: int
    share: float
    first: int
    last: int


@dataclass(frozen=True)
class DictionarySystem:
    """Entries of the fitted codes, then those of codes that were added later; and how frequent each code is.

    Later entries are searched by themselves, so that what was known before keeps its scores.
    """

    layers: tuple[Entries, ...]
    frequencies: NDArray[np.float32]
    vocab: Vocab  # for notes that are kept without their text

    matches_names = takes_codes = True

    def read(self, documents: Documents, *, evidence: bool = False) -> DictionaryReading:
        surfaces = [surface_of(documents, row, self.vocab) for row in range(len(documents))]
        places = tuple(tuple(_places(surface, self.layers)) for surface in surfaces)
        said = sparse_of([self._said(found) for found in places], self.usual)
        return DictionaryReading(said, places, tuple(len(surface.words) for surface in surfaces))

    @cached_property
    def usual(self) -> Usual:
        """The little that a code has where none of its wordings stands."""
        return Usual((FREQUENCY * self.frequencies).astype(np.float32), known=len(self.frequencies))

    def _said(self, found: Sequence[Place]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        best: dict[int, float] = {}
        for place in found:
            best[place.label] = max(best.get(place.label, 0.0), place.share)
        labels = np.array(sorted(best), np.int32)
        shares = np.array([best[label] for label in labels.tolist()])
        return labels, ((1 - FREQUENCY) * shares + FREQUENCY * self.frequencies[labels]).astype(np.float32)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "DictionarySystem":
        return self

    def with_codes(self, growth: Growth) -> "DictionarySystem":
        known = growth.known
        new = {label: known.codes[label] for label in range(growth.n_codes, len(known.codes))}
        further = entries_of(named_wordings(known.codebook, new))
        if growth.view is not None:
            further = counted(further, growth.view)
        shares = np.full(growth.further, growth.share, np.float32)
        return DictionarySystem((*self.layers, further), np.concatenate([self.frequencies, shares]), known.vocab)

    def pack(self) -> PackedSystem:
        arrays: dict[str, NDArray[Any]] = {"frequencies": self.frequencies}
        for number, layer in enumerate(self.layers):
            arrays |= {f"layer{number}.{name}": array for name, array in _packed(layer).items()}
        return PackedSystem(TAG, {"layers": len(self.layers)}, arrays)


def fit_dictionary(view: TrainingView, recipe: schema.Naming, *, progress: Progress = silent) -> DictionarySystem:
    """Gather what coders marked and what the book calls its codes, and count how often each is right."""
    book = read_synonyms(recipe.synonyms, view.codebook) if recipe.synonyms else view.codebook
    sources: dict[Entry, frozenset[int]] = {}
    if recipe.mined:
        sources |= marked_wordings(view)
    if recipe.book:
        sources |= named_wordings(book, dict(enumerate(view.codes)))
    entries = counted(entries_of(sources), view, progress)
    return DictionarySystem((entries,), view.label_shares(), view.vocab)


def unpack_dictionary(packed: PackedSystem, known: Known) -> DictionarySystem:
    """The system that `pack` took apart."""
    layers = tuple(_unpacked(under(packed.arrays, f"layer{number}.")) for number in range(packed.options["layers"]))
    check_length("frequencies", packed.arrays["frequencies"], len(known.codes), finite=True)
    check_shares("frequencies", packed.arrays["frequencies"])
    for layer in layers:
        check_numbers("labels", layer.labels, len(known.codes))
        check_numbers("wording", layer.wording, len(layer.wordings))
        for name, counts in (("found", layer.found), ("right", layer.right)):
            check_shape(name, counts, (len(layer.labels), 2), "iuf")
    return DictionarySystem(layers, np.asarray(packed.arrays["frequencies"]), known.vocab)


def surface_of(documents: Documents, row: int, vocab: Vocab) -> Surface:
    """The words of a document as they stand in its text; where that is not kept, as the vocabulary has them."""
    if not documents.text.size:
        tokens = [vocab.tokens[token] if token > UNKNOWN else "" for token in documents.tokens_of(row).tolist()]
        return Surface(tuple(map(fold, tokens)), (False,) * len(tokens))
    place, text = slice(documents.token_starts[row], documents.token_starts[row + 1]), documents.text_of(row)
    starts, ends = documents.char_starts[place].tolist(), documents.char_ends[place].tolist()
    words = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    return Surface(tuple(map(fold, words)), tuple(map(str.isupper, words)))


def marked_wordings(view: TrainingView) -> dict[Entry, frozenset[int]]:
    """What coders marked for each label in the fitted notes, and the notes in which they did."""
    marked: dict[Entry, set[int]] = defaultdict(set)
    for row in range(len(view.documents)):
        surface = surface_of(view.documents, row, view.vocab)
        for first, last, label in marked_words(view.documents, row):
            marked[surface.wording(first, last), label].add(row)
    return {entry: frozenset(rows) for entry, rows in marked.items()}


def marked_words(documents: Documents, row: int) -> Iterator[tuple[int, int, int]]:
    """Words [first, last) and label of what was marked in a document."""
    place = slice(documents.token_starts[row], documents.token_starts[row + 1])
    marks = slice(documents.evidence_starts[row], documents.evidence_starts[row + 1])
    spans, labels = documents.evidence_spans[marks], documents.evidence_labels[marks]
    first = np.searchsorted(documents.char_ends[place], spans[:, 0], side="right")
    last = np.searchsorted(documents.char_starts[place], spans[:, 1], side="left")
    found = zip(first.tolist(), last.tolist(), labels.tolist(), strict=True)
    return ((start, stop, label) for start, stop, label in found if start < stop)


def named_wordings(book: CodeBook, codes: Mapping[int, str]) -> dict[Entry, frozenset[int]]:
    """The names of codes, by label; a book is known before any note, so none of these has a note of its own."""
    forms = ((label, form) for label, code in codes.items() for name in book.names(code) for form in spoken(name))
    worded = ((label, _surface(form)) for label, form in forms)
    return {(surface.wording(0, len(surface.words)), label): frozenset() for label, surface in worded if surface.words}


def _surface(name: str) -> Surface:
    found = tokenize(name, keep_numbers=True)
    words = [name[start:end] for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True)]
    return Surface(tuple(map(fold, words)), tuple(map(str.isupper, words)))


def entries_of(sources: Mapping[Entry, frozenset[int]]) -> Entries:
    """Entries in an order that no note decides; a wording that stands in lower case too takes any case."""
    any_case = {wording.words for wording, _ in sources if not wording.capitals}
    merged: dict[Entry, list[frozenset[int]]] = defaultdict(list)
    for (wording, label), rows in sources.items():
        merged[Wording(wording.words, wording.capitals and wording.words not in any_case), label].append(rows)
    order = sorted(merged, key=lambda entry: (entry[0].words, entry[0].capitals, entry[1]))
    wordings = {wording: number for number, wording in enumerate(dict.fromkeys(wording for wording, _ in order))}
    return Entries(
        wordings=tuple(wordings),
        wording=np.array([wordings[wording] for wording, _ in order], np.int32),
        labels=np.array([label for _, label in order], np.int32),
        found=np.zeros((len(order), 2), np.int32),
        right=np.zeros((len(order), 2), np.int32),
        only=np.array([_only_note(merged[entry]) for entry in order], np.int64),
    )


def _only_note(sources: Sequence[frozenset[int]]) -> int:
    """The one note without which an entry would not be, or -1."""
    rows = frozenset().union(*sources)
    return next(iter(rows)) if len(rows) == 1 and all(sources) else -1


def counted(entries: Entries, view: TrainingView, progress: Progress = silent) -> Entries:
    """The entries with counts, every fitted note searched as if it were new: without what it alone has taught."""
    found, right = np.zeros_like(entries.found), np.zeros_like(entries.right)
    taught = _taught_alone(entries)
    for row in range(len(view.documents)):
        truth = Truth.of(view.documents, row)
        for match in matches(surface_of(view.documents, row, view.vocab), entries, taught.get(row, frozenset())):
            for entry in entries.of_wording[match.wording]:
                if entries.only[entry] != row:
                    found[entry, int(match.within)] += 1
                    right[entry, int(match.within)] += truth.holds(match, int(entries.labels[entry]))
        progress("counting wordings", row + 1, len(view.documents))
    return replace(entries, found=found, right=right)


@dataclass(frozen=True)
class Truth:
    """What a note's coder said: words [first, last) marked for labels, and the labels of the note."""

    marked: frozenset[tuple[int, int, int]]
    labels: frozenset[int]

    @staticmethod
    def of(documents: Documents, row: int) -> "Truth":
        return Truth(frozenset(marked_words(documents, row)), frozenset(documents.labels_of(row).tolist()))

    def holds(self, match: Match, label: int) -> bool:
        """Whether a match is right for a label: marked for it, or, where nothing was marked, in a note that has it."""
        return (match.first, match.last, label) in self.marked if self.marked else label in self.labels


def _taught_alone(entries: Entries) -> Mapping[int, frozenset[int]]:
    """For each note, the wordings all of whose entries come from it alone."""
    taught: dict[int, set[int]] = defaultdict(set)
    for number, own in enumerate(entries.of_wording):
        rows = {int(entries.only[entry]) for entry in own}
        if len(rows) == 1 and -1 not in rows:
            taught[rows.pop()].add(number)
    return {row: frozenset(numbers) for row, numbers in taught.items()}


def _places(surface: Surface, layers: Iterable[Entries]) -> Iterator[Place]:
    """What the wordings of a note say; a later layer's wording within a longer one of an earlier layer says nothing."""
    before: list[Match] = []
    for entries in layers:
        found = [match for match in matches(surface, entries) if not any(_inside(match, other) for other in before)]
        for match in found:
            for entry in entries.of_wording[match.wording]:
                share = float(entries.shares[entry, int(match.within)])
                yield Place(int(entries.labels[entry]), share, match.first, match.last)
        before += found


def _inside(match: Match, other: Match) -> bool:
    inside = other.first <= match.first and match.last <= other.last
    return inside and match.last - match.first < other.last - other.first


def _packed(entries: Entries) -> dict[str, NDArray[Any]]:
    words = Ragged.of([list(" ".join(wording.words).encode()) for wording in entries.wordings], np.uint8)
    return {
        "words": words.values,
        "word_starts": words.starts,
        "capitals": np.array([wording.capitals for wording in entries.wordings], np.uint8),
        "wording": entries.wording,
        "labels": entries.labels,
        "found": entries.found,
        "right": entries.right,
    }


def _unpacked(arrays: Mapping[str, NDArray[Any]]) -> Entries:
    check_starts("word_starts", arrays["word_starts"], len(arrays["words"]))
    words, bounds = arrays["words"].tobytes(), arrays["word_starts"].tolist()
    texts = [words[first:last].decode() for first, last in pairwise(bounds)]
    capitals = arrays["capitals"].tolist()
    return Entries(
        wordings=tuple(Wording(tuple(text.split(" ")), bool(c)) for text, c in zip(texts, capitals, strict=True)),
        **{name: np.asarray(arrays[name]) for name in ("wording", "labels", "found", "right")},
        only=np.full(len(arrays["labels"]), -1, np.int64),
    )
