"""How good a coder's explanations are: against what people marked, and against the coder itself, measured once."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, Role, held_out, take
from plant.data.store import load_corpus
from plant.errors import InputError, unknown
from plant.evaluate.explanations.faithfulness import Faithfulness, faithfulness, mean_faithfulness
from plant.evaluate.explanations.plausibility import marked_tokens, mean_plausibility, tune_share
from plant.explain.spans import SHARE
from plant.explain.table import EXPLAINERS
from plant.store.artifact import read_manifest, save_artifact
from plant.store.keeper import InFolder, Kind, Notify, Origin, unheard
from plant.systems.coder import FittedCoder, load_coder
from plant.systems.system import OF_SYSTEMS
from plant.types import Progress, Span, silent

Figures = Mapping[str, Mapping[str, float]]
"""By explainer, the value of each measure."""

Weights = NDArray[np.floating]
KIND = "explanation"
RANDOM = "random"  # weights that know nothing: what every explainer has to beat
MEASURES = ("precision", "recall", "f1", "iou", "auprc", "comprehensiveness", "sufficiency", "seconds a note")
NAMES = (*EXPLAINERS, *OF_SYSTEMS, RANDOM)


@dataclass(frozen=True)
class Example:
    """An accepted code of a document, and the tokens that people marked for it; none where nothing is marked."""

    row: int
    label: int
    marked: NDArray[np.bool_]


@dataclass(frozen=True)
class Explained:
    """Examples of some documents; weights are chosen on one set of them and measured on another."""

    documents: Documents
    examples: tuple[Example, ...]


def measure_explanations(
    run: Path,
    *,
    notes: int,
    names: Sequence[str] = (),
    corpus: Path | None = None,
    progress: Progress = silent,
    notify: Notify = unheard,
) -> Figures:
    """Every explainer that goes with the coder, or those that are named, on at most `notes` reported notes."""
    for name in names:
        if name not in NAMES:
            raise InputError(unknown("explainer", name, NAMES))
    folder = corpus or run / "corpus"
    fitted, source = load_coder(run / "coder"), load_corpus(folder)
    reported = explained_codes(fitted, held_out(source, Role.REPORT, fitted.codes), notes=notes)
    if not reported.examples:
        raise InputError(f"{run}: the coder accepts no code that could be explained in {notes:,} reported notes")
    tuning = explained_codes(fitted, held_out(source, Role.CHOOSE, fitted.codes), notes=notes)
    keeper = InFolder(run / "explanations", notify)
    digests = {"coder": read_manifest(run / "coder").digest, "corpus": read_manifest(folder).digest}
    origin = Origin({**digests, "notes": str(notes)})
    return {
        name: keeper.once(
            name,
            origin,
            lambda name=name: measure_explainer(fitted, name, tuning, reported, progress=progress),
            EXPLANATION,
        )
        for name in names or [name for name in NAMES if applicable(fitted, name, reported)]
    }


def _save(figures: Mapping[str, float], path: Path, *, recipe: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
    save_artifact(path, KIND, tensors={}, inputs=inputs, facts=figures)


def _load(path: Path) -> Mapping[str, float]:
    facts = read_manifest(path, KIND).facts
    return {measure: facts[measure] for measure in MEASURES if measure in facts}


EXPLANATION = Kind(KIND, _save, _load)


def explained_codes(fitted: FittedCoder, documents: Documents, *, notes: int) -> Explained:
    """The accepted codes of at most `notes` documents; of those that have marks, where any has, the marked codes."""
    if not len(documents):
        return Explained(documents, ())
    if not len(documents.text):
        raise InputError("explanations are measured on texts, which this corpus was prepared without")
    with_marks = np.flatnonzero(np.diff(documents.evidence_starts))
    eligible = with_marks if len(with_marks) else np.flatnonzero(np.diff(documents.token_starts))
    rows = eligible[np.unique(np.linspace(0, len(eligible) - 1, min(notes, len(eligible))).astype(int))]
    chosen = fitted.reread(take(documents, rows))  # the corpus may be in the words of another coder
    accepted = fitted.accepted(chosen)
    examples = [Example(row, int(label), _marked(chosen, row, label)) for row, label in accepted]
    return Explained(chosen, tuple(e for e in examples if e.marked.any() or not len(with_marks)))


def measure_explainer(
    fitted: FittedCoder, name: str, tuning: Explained, reported: Explained, *, progress: Progress = silent
) -> dict[str, float]:
    """Plausibility where people marked words, faithfulness, and the seconds that weighing a note takes."""
    started = time.perf_counter()
    weights = list(_weights(fitted, name, reported, progress))
    seconds = (time.perf_counter() - started) / max(1, len({example.row for example in reported.examples}))
    examples = [(w, e.marked) for w, e in zip(weights, reported.examples, strict=True) if e.marked.any()]
    share = _share(fitted, name, tuning, progress) if examples else SHARE
    faithful = [
        _faithfulness(fitted, reported, example, weight)
        for example, weight in _watched(reported.examples, weights, f"{name}: leaving words out", progress)
    ]
    return {**mean_plausibility(examples, share=share), **mean_faithfulness(faithful), "seconds a note": seconds}


def applicable(fitted: FittedCoder, name: str, sample: Explained) -> bool:
    """Whether the coder can be explained in this way."""
    try:
        next(_weights(fitted, name, sample, silent), None)
    except InputError:
        return False
    return True


def _marked(documents: Documents, row: int, label: int) -> NDArray[np.bool_]:
    place = slice(documents.token_starts[row], documents.token_starts[row + 1])
    marks = slice(documents.evidence_starts[row], documents.evidence_starts[row + 1])
    own = documents.evidence_labels[marks] == label
    spans = [Span(start, end) for start, end in documents.evidence_spans[marks][own].tolist()]
    return marked_tokens(documents.char_starts[place], documents.char_ends[place], spans)


def _weights(fitted: FittedCoder, name: str, explained: Explained, progress: Progress) -> Iterator[Weights]:
    """The weights of every example, in order; a document is read once for all its codes."""
    examples = explained.examples
    rows = np.array([example.row for example in examples])
    for row in np.unique(rows):
        own = [examples[place] for place in np.flatnonzero(rows == row)]
        yield from _weigh(fitted, name, take(explained.documents, np.array([row])), own)
        progress(f"{name}: weighing words", own[-1].row + 1, len(explained.documents))


def _weigh(fitted: FittedCoder, name: str, document: Documents, examples: Sequence[Example]) -> Weights:
    if name == RANDOM:
        return np.random.default_rng(examples[0].row).random((len(examples), len(document.tokens)))
    reading = fitted.system.read(document, evidence=True)
    return reading.weigh(0, [example.label for example in examples], explainer=name)


def _share(fitted: FittedCoder, name: str, tuning: Explained, progress: Progress) -> float:
    """How strong a word must be to be shown, tuned on other notes than those that are reported."""
    weights = _weights(fitted, name, tuning, progress)
    examples = [(w, e.marked) for w, e in zip(weights, tuning.examples, strict=True) if e.marked.any()]
    return tune_share(examples) if examples else SHARE


def _faithfulness(fitted: FittedCoder, explained: Explained, example: Example, weights: Weights) -> Faithfulness:
    return faithfulness(weights, partial(_probabilities, fitted, explained.documents, example))


def _probabilities(
    fitted: FittedCoder, documents: Documents, example: Example, kept: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """The code's probability for versions of a note that have only the kept words."""
    text = documents.text_of(example.row)
    place = slice(documents.token_starts[example.row], documents.token_starts[example.row + 1])
    starts, ends = documents.char_starts[place].tolist(), documents.char_ends[place].tolist()
    words = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    versions = [" ".join(words[position] for position in np.flatnonzero(mask)) for mask in kept]
    return fitted.probabilities_of(example.label, fitted.encode(versions))


def _watched(
    examples: Sequence[Example], weights: Sequence[Weights], what: str, progress: Progress
) -> Iterator[tuple[Example, Weights]]:
    for done, pair in enumerate(zip(examples, weights, strict=True), start=1):
        yield pair
        progress(what, done, len(examples))
