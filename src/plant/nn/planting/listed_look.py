"""What the listed words of notes say for labels, and where labels look: the forward pass of sparse planting, in arrays.

Training (`plant.nn.planting.listed_step`) and reading without torch (`plant.nn.reading.planted`) both come here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from plant.nn.host import side_by_side
from plant.nn.planting import listed_kernels as kernels
from plant.nn.planting.listed_notes import Array, Integers, ListedNotes
from plant.nn.planting.rooms import Room


@dataclass(frozen=True)
class Rooms:
    """Memory of the arrays that grow with positions, labels and the vocabulary."""

    sums: Room = field(default_factory=Room)
    states: Room = field(default_factory=Room)
    of_sums: Room = field(default_factory=Room)
    weights: Room = field(default_factory=Room)
    labels: Room = field(default_factory=Room)
    tokens: Room = field(default_factory=Room)


@dataclass(frozen=True)
class Constants:
    """What a ranker that does not learn says of listed pairs: scores are filled in as they are asked for."""

    scores: Array  # [entry]
    label_half: Array | None  # of the two-layer form
    versions: tuple[tuple[int, int], ...] = ()  # of the ranker's tensors, where they may change


@dataclass(frozen=True)
class ListedStep:
    """A batch under sparse planting, without the tensors that learn."""

    notes: ListedNotes
    values: Array  # [entry]: relevance
    k: int
    static: bool
    normalised: bool
    form: int  # of the ranker
    constants: Constants | None
    rooms: Rooms

    @property
    def sources(self) -> list[int]:
        """Which of static and planted there are."""
        return [kernels.STATIC] * self.static + [kernels.PLANTED] * (self.form != kernels.NO_RANKER)

    def by_document(self, work: Callable[[int], None]) -> None:
        """Call `work` on every document, some side by side."""

        def run(first: int, last: int) -> None:
            for document in range(first, last):
                work(document)

        side_by_side(run, len(self.notes))

    def found(self, document: int) -> tuple[Any, ...]:
        """What kernels take for the found labels of a document."""
        return *self.notes.found_in(document), *self.notes.words, *self.notes.pairs


@dataclass(frozen=True)
class Look:
    """Where all labels looked in the documents of a batch, ready for whoever asks afterwards."""

    notes: ListedNotes
    kept: Array  # [source, pair]
    shares: Array  # [source, pair]
    scales: Array  # [source]
    starts: Sequence[int]  # the first position of each document, and the end of the last

    def of(self, document: int, asked: Integers) -> Array:
        """The weights of asked labels over a document, [asked, position], those of all sources added up."""
        (first, last), start = self.notes.found_in(document), self.starts[document]
        found = self.notes.pairs.labels[first:last]
        places = np.searchsorted(found, asked)
        there = np.append(found, -1)[places] == asked
        weights = np.zeros((len(asked), self.starts[document + 1] - start), self.shares.dtype)
        words = (*self.notes.words, *self.notes.pairs, self.kept, self.shares, self.scales)
        if len(found):
            kernels.spread_asked(np.where(there, first + places, -1), *words, start, weights)
        return weights


def evidence_of_all(step: ListedStep, seen: "ListedSeen") -> Array:
    """The logits without the bias, [document, label]."""
    evidence = np.zeros((len(step.notes), len(seen.looked.weights)), seen.looked.weights.dtype)

    def work(document: int) -> None:
        look(step, seen, document)
        kernels.add_evidence(*step.found(document), *seen.looked, evidence[document])

    step.by_document(work)
    return evidence


def look_of(step: ListedStep, seen: "ListedSeen", starts: Sequence[int]) -> Look:
    """Where labels look, known once their evidence is."""
    return Look(step.notes, seen.focus.kept, seen.looked.shares, seen.looked.scales, starts)


class Scoring(NamedTuple):
    """What the ranker's scores are made of; empty where a form does not have it."""

    form: int
    token_rows: Array  # [place]: its row of the next two
    token_vectors: Array
    shift: Array
    label_vectors: Array
    output: Array


class ListedFocus(NamedTuple):
    """Where labels look: how many positions of each pair survive, and where sums of states are needed."""

    kept: Array  # [source, pair]
    slots: Array  # [row]: the number of the sum up to it, or -1
    used: Array  # [document]: the first number that is left


class Looked(NamedTuple):
    """What they look at; the last is room for a number of each pair."""

    at: Array  # [source, pair]: the number of a sum of states, or -1
    shares: Array  # [source, pair]: the weight of each
    sums: Array  # [number, size]: of states
    weights: Array  # [label, size]
    scales: Array  # [source]
    dots: Array  # [pair]


class ListedSeen(NamedTuple):
    """All numbers of a batch."""

    states: Array
    scoring: Scoring
    focus: ListedFocus
    looked: Looked


def see(step: ListedStep, arrays: Sequence[Array]) -> ListedSeen:
    """All numbers of a batch, with room for what each document makes of them.

    `arrays` are states, weights, scales and what the form of the ranker needs, as `scoring_of` takes it.
    """
    states, weights, given, *ranker = arrays
    n, kind, n_rows = len(step.notes.pairs.places), weights.dtype, len(step.notes.words.positions)
    scales = np.zeros(2, kind)
    scales[step.sources] = given
    focus = ListedFocus(np.zeros((2, n), np.int32), np.empty(n_rows, np.int32), np.empty(len(step.notes), np.int64))
    sums = step.rooms.sums.lend((n_rows, states.shape[1]), kind)
    looked = Looked(np.empty((2, n), np.int32), np.zeros((2, n), kind), sums, weights, scales, np.empty(n, kind))
    return ListedSeen(states, scoring_of(step, ranker, kind), focus, looked)


def scoring_of(step: ListedStep, arrays: Sequence[Array], kind: np.dtype[Any]) -> Scoring:
    """Of the bilinear form vectors and shift of tokens, vectors of labels; of the other the halves and the output."""
    tokens, nothing = step.notes.tokens, np.empty(0, kind)
    if step.form == kernels.BILINEAR:
        return Scoring(step.form, tokens, arrays[0], arrays[1], arrays[2], nothing)
    if step.form == kernels.TWO_LAYER:
        return Scoring(step.form, np.arange(len(tokens)), arrays[0], nothing, arrays[1], arrays[2])
    return Scoring(step.form, tokens, nothing.reshape(0, 0), nothing, nothing.reshape(0, 0), nothing)


def focus(step: ListedStep, seen: ListedSeen, document: int) -> None:
    """Where the found labels of a document look."""
    found, (kept, shares, scores) = step.found(document), (seen.focus.kept, seen.looked.shares, seen.looked.dots)
    if step.static:
        room = (scores, kept[kernels.STATIC], shares[kernels.STATIC])
        kernels.focus_static(*found, step.k, step.normalised, step.values, *room)
    if step.form != kernels.NO_RANKER:
        room = (scores, kept[kernels.PLANTED], shares[kernels.PLANTED])
        known = np.empty(0, scores.dtype) if step.constants is None else step.constants.scores
        kernels.focus_planted(*found, step.k, known, *seen.scoring, *room)


def look(step: ListedStep, seen: ListedSeen, document: int) -> None:
    """Where they look, and the sums of states that stand there."""
    focus(step, seen, document)
    places, (kept, slots, used) = step.notes.places_in(document), seen.focus
    used[document] = kernels.number_sums(*step.found(document), *places, kept, slots, seen.looked.at)
    kernels.add_up(*places, *step.notes.words, slots, seen.states, seen.looked.sums)
