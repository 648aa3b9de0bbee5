"""Words of codes, and of notes: by mutual information, by the ranker, by each explainer, beside what people marked."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plant.errors import InputError
from plant.nn.parts.protocols import planted_ranker
from plant.studies.fittings import Notes
from plant.studies.variants import Run
from plant.systems.array_classifier import whole_system
from plant.systems.classifier import ClassifierSystem
from plant.systems.coder import FittedCoder, load_coder
from plant.text.tokenizer import tokenize
from plant.types import Note

CODES, WORDS, NOTES = 10, 8, 5
LOOKED = ("attention", "learned", "static", "planted", "gradient")  # explainers of a case study, where they fit


def token_rows(run: Run, notes: Notes) -> Iterable[Mapping[str, Any]]:
    """The most frequent codes with their words by mutual information, by the ranker, and as marked in all notes."""
    coder = load_coder(run.folder / "coder")
    system, marked = whole_system(coder.system), _marked_words(notes)
    if not isinstance(system, ClassifierSystem) or system.given.relevance is None:
        raise InputError("words of codes are those of a planted recipe with static attention: take plant-cnn")
    ranker, tokens = planted_ranker(system.classifier.decoder), system.given.relevance.tokens
    for label in np.argsort(-coder.train_counts, kind="stable")[:CODES].tolist():
        scores = None if ranker is None else _scores(ranker, label)
        yield {
            "code": coder.codes[label],
            "title": coder.codebook.description(coder.codes[label]),
            "mutual information": _joined(coder, tokens[label][:WORDS]),
            "ranker": "" if scores is None else _joined(coder, np.argsort(-scores, kind="stable")[:WORDS]),
            "marked": ", ".join(word for word, _ in marked.get(coder.codes[label], Counter()).most_common(WORDS)),
        }


def case_rows(run: Run, notes: Notes) -> Iterator[Mapping[str, Any]]:
    """For some reported notes and their marked codes the words that each explainer names, beside those marked."""
    coder = load_coder(run.folder / "coder")
    report = dict(zip(notes.options[::2], notes.options[1::2], strict=True)).get("--report", "test").split(",")
    cases = [note for note in notes.open().notes() if note.split in report and note.evidence][:NOTES]
    for number, note in enumerate(cases, start=1):
        documents = coder.encode([note.text])
        for code in [code for code in note.codes if code in note.evidence and code in coder.codes]:
            marked = _words_within(note, code)
            named = {name: _best_words(coder, documents, note, code, name) for name in LOOKED}
            words = {name: ", ".join(found or ()) for name, found in named.items()}
            right = {
                _share(name): float(np.mean([word in marked for word in found])) if found else 0.0
                for name, found in named.items()
                if found is not None
            }
            yield {"note": number, "code": code, "marked": ", ".join(dict.fromkeys(marked)), **words, **right}


def case_measures() -> tuple[str, ...]:
    """The columns that are numbers, where their explainers fit the coder."""
    return tuple(map(_share, LOOKED))


def case_findings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many of the words that each explainer names were marked, in the mean over codes of notes."""
    told = [name for name in LOOKED if rows and _share(name) in rows[0]]
    means = {name: float(np.mean([row[_share(name)] for row in rows])) for name in told}
    return [
        f"{name}: {mean:.3f} of the words that it names were marked ({len(rows)} codes)" for name, mean in means.items()
    ]


def _share(explainer: str) -> str:
    return f"{explainer}, share marked"


def _best_words(coder: FittedCoder, documents: Any, note: Note, code: str, explainer: str) -> list[str] | None:
    """The words of the highest weights; None where the explainer does not fit the coder."""
    try:
        weights = coder.weigh(documents, coder.codes.index(code), explainer=explainer)
    except InputError:
        return None
    best = [place for place in np.argsort(-weights, kind="stable")[:WORDS].tolist() if weights[place] > 0]
    spans = [(int(documents.char_starts[place]), int(documents.char_ends[place])) for place in best]
    return list(dict.fromkeys(note.text[start:end].lower() for start, end in spans))


def _marked_words(notes: Notes) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for note in notes.open().notes():
        for code in note.evidence:
            found.setdefault(code, Counter()).update(_words_within(note, code))
    return found


def _words_within(note: Note, code: str) -> list[str]:
    """The words that people marked for a code."""
    texts = [note.text[span.start : span.end] for span in note.evidence[code]]
    return [word for text in texts for word in tokenize(text).forms]


def _joined(coder: FittedCoder, tokens: Sequence[int] | NDArray[np.integer]) -> str:
    return ", ".join(coder.vocab.tokens[int(token)] for token in tokens if int(token) > 1)


@torch.no_grad()
def _scores(ranker: Any, label: int) -> NDArray[np.float32]:
    every = torch.arange(len(ranker.token_vectors))
    scores: NDArray[np.float32] = ranker.scores(every, torch.tensor([label]))[0].numpy()
    return scores
