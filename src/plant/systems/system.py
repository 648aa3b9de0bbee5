"""What a fitted system is: something that gives each code of a note a probability, and can be taken apart and kept.

Each system is one file of this room: how it is fitted, and a class that can `read`, `pack` and take further codes. Its
tag, by which a folder is opened again, stands in `plant.systems.table`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.data.batches import TOGETHER, predict_in_batches, prediction_batches, together
from plant.data.corpus import Documents, TrainingView, take
from plant.evaluate.choosing.pairs import Pairs, pairs_of, put_together
from plant.evaluate.scores.lists import Lists
from plant.evaluate.scores.of_texts import Full, TextScores, Usual
from plant.explain.spans import evidence_of_all
from plant.text.vocab import Vocab
from plant.types import Evidence, Progress, silent

Arrays = Mapping[str, NDArray[Any]]
CONTRIBUTION = "contribution"  # of each word: how linear models are explained
JUDGED = "judged"  # of phrases: how a judge of candidates is explained
OF_SYSTEMS = (CONTRIBUTION, JUDGED)  # explainers that only some systems have, beside those of networks
FORMS = "arrays"  # the option of a packed classifier under which the forms stand by which its parts read without torch
UNSEEN = 0.5  # notes that a code without any is taken to have, for its prior


@runtime_checkable
class Reading(Protocol):
    """Documents that a system read together: the scores of their codes, and what it takes to explain them."""

    @property
    def scores(self) -> NDArray[np.float32]:
        """The probability of each label for each document."""
        ...

    @property
    def known(self) -> int:
        """How many labels, from the first, the system has something to say of."""
        ...

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        """How much each token of a document speaks for each of some labels, [asked, token]; '' is the usual way."""
        ...


@runtime_checkable
class SaidReading(Protocol):
    """A reading that need not make a row of all labels to say what it thinks of a document."""

    @property
    def text_scores(self) -> TextScores:
        """The scores in the form that costs it least."""
        ...


@runtime_checkable
class PhraseReading(Protocol):
    """A reading whose evidence are phrases, not single words."""

    def phrases(self, row: int, label: int) -> tuple[Evidence, ...]:
        """The phrases of a document that speak for a label, strongest first."""
        ...


@dataclass(frozen=True)
class PackedSystem:
    """A system taken apart: its tag, plain options, arrays, and the systems that it is made of."""

    tag: str
    options: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    parts: tuple["PackedSystem", ...] = ()


@dataclass(frozen=True)
class Known:
    """What a coder knows of words and codes, for its systems to be put together again."""

    vocab: Vocab
    codes: tuple[str, ...]
    codebook: CodeBook


@dataclass(frozen=True)
class Growth:
    """Codes that are added to a coder by their names: all words and codes there are then, and those there were before.

    `counts` are the fitted notes of each code; `view` the fitted notes themselves, where they are at hand.
    """

    known: Known
    n_words: int
    n_codes: int
    counts: NDArray[np.int64]
    n_documents: int
    view: TrainingView | None = None

    @property
    def further(self) -> int:
        """How many codes are new."""
        return len(self.known.codes) - self.n_codes

    @property
    def share(self) -> float:
        """The share of notes that a code without any is taken to have."""
        return UNSEEN / max(1, self.n_documents)


@runtime_checkable
class FittedSystem(Protocol):
    """Scores all labels of documents, and can be packed and grown."""

    @property
    def matches_names(self) -> bool:
        """Whether it looks for the words of names, so that new names bring new words."""
        ...

    @property
    def takes_codes(self) -> bool:
        """Whether it can tell a code by its name alone."""
        ...

    def read(self, documents: Documents, *, evidence: bool = False) -> Reading:
        """Read documents as one batch; `evidence` keeps what `weigh` needs."""
        ...

    def unread(self, documents: Documents) -> int:
        """How many sub-words of documents lie beyond a limit on windows."""
        ...

    def quantized(self) -> "FittedSystem":
        """The same system for CPUs with weights in eight bits; an error where it has no such form."""
        ...

    def with_codes(self, growth: Growth) -> "FittedSystem":
        """The same system with more labels at the end; the scores of those that it knew stay as they were."""
        ...

    def pack(self) -> PackedSystem:
        """Everything that was learned."""
        ...


def said(reading: Reading) -> TextScores:
    """The scores of a reading in the form that costs it least."""
    return reading.text_scores if isinstance(reading, SaidReading) else Full(reading.scores)


def phrases_in(
    reading: Reading, place: int, labels: Sequence[int], documents: Documents, row: int, *, explainer: str = ""
) -> list[tuple[Evidence, ...]]:
    """The phrases that speak for labels of a document, which stands at a `place` of the reading and a `row` of all."""
    if isinstance(reading, PhraseReading) and not explainer:
        return [reading.phrases(place, label) for label in labels]
    tokens = slice(documents.token_starts[row], documents.token_starts[row + 1])
    starts, ends = documents.char_starts[tokens], documents.char_ends[tokens]
    return evidence_of_all(reading.weigh(place, labels, explainer=explainer), starts, ends, documents.text_of(row))


def usual_of(system: FittedSystem) -> Usual | None:
    """What a system says of labels that a document does not speak for, where it says the same of them always."""
    found: Usual | None = getattr(system, "usual", None)
    return found


def readings(
    system: FittedSystem,
    documents: Documents,
    *,
    evidence: bool = False,
    size: int = TOGETHER,
    progress: Progress = silent,
) -> Iterator[tuple[NDArray[np.intp], Reading]]:
    """All documents, some of similar length at a time, with their row numbers; longest first."""
    for rows in prediction_batches(documents, size=size, progress=progress):
        yield rows, system.read(take(documents, rows), evidence=evidence)


def probabilities(
    system: FittedSystem, documents: Documents, *, n_labels: int, progress: Progress = silent
) -> NDArray[np.float32]:
    """The probability of each label for each document."""

    def predict(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        return system.read(take(documents, rows)).scores

    return predict_in_batches(predict, documents, n_labels=n_labels, size=TOGETHER, progress=progress)


def best_of_each(
    system: FittedSystem, documents: Documents, *, most: int, n_labels: int = 0, progress: Progress = silent
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The `most` best labels of each document, best first, and their probabilities; ties go by label.

    Where a system has a score for all labels, a batch of documents has them in memory; the more labels (`n_labels`),
    the smaller it is.
    """
    labels, values = np.zeros((len(documents), most), np.int32), np.zeros((len(documents), most), np.float32)
    for rows, reading in readings(system, documents, size=together(n_labels), progress=progress):
        scores = said(reading)
        for place, row in enumerate(rows.tolist()):
            labels[row] = scores.best(place, most)
            values[row] = scores.of(place, labels[row])
    return labels, values


def pairs_said(systems: Sequence[FittedSystem], documents: Documents, *, n_labels: int) -> Pairs:
    """What systems say of pairs that stand for all; a few documents have all their scores in memory at a time."""
    gold = Lists(documents.labels, documents.label_starts)

    def of_documents() -> Iterator[Pairs]:
        for rows in prediction_batches(documents, size=together(n_labels)):
            few = take(documents, rows)
            scores = [said(system.read(few)) for system in systems]
            for place, row in enumerate(rows.tolist()):
                yield pairs_of(row, scores, gold.of(row), place=place)

    return put_together(of_documents())


def flattened(packed: PackedSystem, place: str = "") -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A packed system as a plain tree of tags and options, and its arrays under the names of their places."""
    arrays = {f"{place}{name}": array for name, array in packed.arrays.items()}
    trees = []
    for number, part in enumerate(packed.parts):
        tree, own = flattened(part, f"{place}{number}.")
        trees.append(tree)
        arrays |= own
    return {"system": packed.tag, "options": dict(packed.options), "parts": trees}, arrays


def unflattened(tree: Mapping[str, Any], arrays: Arrays) -> PackedSystem:
    """The packed system that `flattened` laid out."""
    parts = tuple(unflattened(part, under(arrays, f"{number}.")) for number, part in enumerate(tree["parts"]))
    own = {name: array for name, array in arrays.items() if not name.partition(".")[0].isdigit()}
    return PackedSystem(tree["system"], tree["options"], own, parts)


def under(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What lies under a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
