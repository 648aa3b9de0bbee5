"""The steps to a coder by candidates: readers of parts of the notes, their candidates, a reader of all, a judge.

Every fitted note is read by a reader that has not seen it, so that the judge learns what readers are worth on new notes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates.clusters import WordClusters, cluster_words, unpack_clusters
from plant.candidates.crossfit import dealt, keys_of
from plant.candidates.judge import Lessons, teach
from plant.candidates.listing import Lister, list_rows, right_rows
from plant.candidates.mentions import mentions_of
from plant.candidates.reader import Book, Reader, TaughtNote, fit_reader, unpack_reader
from plant.candidates.rows import ListedNotes, Rows, listed
from plant.candidates.words import stemmer, words_of
from plant.codes.files import read_codebook
from plant.data.corpus import Documents, TrainingView
from plant.errors import InputError
from plant.recipe.schema import Candidates, Naming, Recipe
from plant.relevance.store import Named
from plant.steps.step import Step, Work, always
from plant.store.artifact import Manifest, open_artifact, save_artifact
from plant.store.keeper import Kind
from plant.text.language import language_of
from plant.types import Progress, silent

PARTS = 3  # of the fitted notes: each is read by a reader of the others
FOLDS = 5  # of the judge
OPTIONS = "options.json"
SECTIONS = ("candidates", "naming", "seed")
READ_FOR_LANGUAGE = 200  # words of each note


def taught_notes(view: TrainingView, language: str) -> list[TaughtNote]:
    """The fitted notes as readers are taught them."""
    documents, stem = view.documents, stemmer(language)
    if not documents.text.size:
        raise InputError("candidates are looked for in texts: prepare the corpus with prepare.keep_text = true")
    return [_taught(documents, row, stem) for row in range(len(documents))]


def _taught(documents: Documents, row: int, stem: Any) -> TaughtNote:
    words = words_of(documents.text_of(row), stem)
    marked = slice(documents.evidence_starts[row], documents.evidence_starts[row + 1])
    mentions = mentions_of(words, documents.evidence_spans[marked], documents.evidence_labels[marked])
    return TaughtNote(words, mentions, frozenset(documents.labels_of(row).tolist()))


def language_for(view: TrainingView, recipe: Candidates) -> str:
    """The language that the recipe names, or the one of the fitted notes."""
    if recipe.language != "auto":
        return recipe.language
    tokens, starts = view.documents.tokens, view.documents.token_starts
    seen = [number for start, end in zip(starts, starts[1:], strict=False)
            for number in tokens[start : min(end, start + READ_FOR_LANGUAGE)].tolist()]  # fmt: skip
    return language_of(view.vocab.tokens[number] for number in seen)


def book_of(view: TrainingView, labels: Sequence[int], naming: Naming) -> Book:
    """Names of the codes that some notes have, and of the further codes of the recipe's table: of no other codes."""
    names: dict[str, tuple[str, ...]] = {}
    if naming.book:
        names |= {view.codes[label]: view.codebook.names(view.codes[label]) for label in labels}
    if naming.codes:
        table = read_codebook(Path(naming.codes), system=view.codebook.system)
        names |= {code: (*names.get(code, ()), *table.names(code)) for code in table.codes}
    return Book(view.codebook.system, {code: tuple(dict.fromkeys(own)) for code, own in names.items() if own})


def parts_of(view: TrainingView, seed: int) -> NDArray[np.int64]:
    """The part of each fitted note."""
    return dealt(view.documents.ids, parts=PARTS, seed=seed, what="reader")


def read_by(view: TrainingView, rows: Sequence[int], work: Work) -> Reader:
    """A reader of some of the fitted notes, in the order of their ids."""
    recipe, naming = work.section(Candidates), work.section(Naming)
    language = language_for(view, recipe)
    notes = taught_notes(view, language)
    order = sorted(rows, key=lambda row: view.documents.ids[row])
    labels = sorted({label for row in order for label in notes[row].labels})
    clusters: Named[WordClusters] | None = work.get("word-clusters")
    return fit_reader(
        [notes[row] for row in order],
        view.codes,
        book_of(view, labels, naming),
        language=language,
        clusters=clusters.thing if clusters else None,
        seed=work.seed,
        progress=work.progress,
    )


def _reader_without(work: Work, *, part: int) -> Reader:
    view: TrainingView = work["view"]
    return read_by(view, np.flatnonzero(parts_of(view, work.seed) != part).tolist(), work)


def _reader(work: Work) -> Reader:
    view: TrainingView = work["view"]
    return read_by(view, range(len(view.documents)), work)


def _listed(work: Work) -> ListedNotes:
    """The candidates of every fitted note, each listed by the reader that has not seen it."""
    view: TrainingView = work["view"]
    parts, notes = parts_of(view, work.seed), taught_notes(view, language_for(view, work.section(Candidates)))
    codes = (*view.codes, *further_codes(view, work.section(Naming)))
    found: dict[int, Rows] = {}
    for part in range(PARTS):
        lister = Lister(work[f"reader{part}"], codes)
        for row in np.flatnonzero(parts == part).tolist():
            found[row] = list_rows(lister, notes[row].words, np.empty((0, len(codes)), np.float32))
            work.progress("listing candidates", len(found), len(notes))
    return listed([found[row] for row in range(len(notes))], n_features=len(lister.features))


def further_codes(view: TrainingView, naming: Naming) -> tuple[str, ...]:
    """The codes of the recipe's table that no fitted note has."""
    if not naming.codes:
        return ()
    table, known = read_codebook(Path(naming.codes), system=view.codebook.system), set(view.codes)
    return tuple(code for code in table.codes if code not in known and table.names(code))


def lessons_of(view: TrainingView, found: ListedNotes, *, language: str, seed: int) -> Lessons:
    """The listed notes with their answers."""
    notes = taught_notes(view, language)
    right = [right_rows(found.of(row), note) for row, note in enumerate(notes)]
    ids = view.documents.ids
    return Lessons(
        listed=found,
        right=np.concatenate(right),
        gold=[note.labels for note in notes],
        folds=dealt(ids, parts=FOLDS, seed=seed, what="judge"),
        keys=keys_of(ids),
    )


def _save(thing: Any, path: Path, *, kind: str, recipe: Mapping[str, Any], inputs: Mapping[str, str]) -> Manifest:
    options, arrays = thing.pack()
    files = {OPTIONS: json.dumps(options)}
    return save_artifact(path, kind, tensors=arrays, files=files, recipe=recipe, inputs=inputs)


def _load_reader(path: Path) -> Reader:
    artifact = open_artifact(path, "reader")
    return unpack_reader(json.loads(artifact.text(OPTIONS)), artifact.tensors)


def _save_listed(found: ListedNotes, path: Path, *, recipe: Mapping[str, Any], inputs: Mapping[str, str]) -> Manifest:
    arrays = {field.name: getattr(found.rows, field.name) for field in fields(Rows)}
    return save_artifact(path, "candidates", tensors={**arrays, "starts": found.starts}, recipe=recipe, inputs=inputs)


def _load_listed(path: Path) -> ListedNotes:
    tensors = open_artifact(path, "candidates").tensors
    return ListedNotes(Rows(*(np.array(tensors[field.name]) for field in fields(Rows))), np.array(tensors["starts"]))


def _clusters(work: Work) -> Named[WordClusters]:
    vectors: Named[NDArray[np.float32]] = work["word-vectors"]
    return Named(cluster_words(vectors.vocab.tokens, vectors.thing), {})


def _needs(recipe: Recipe) -> tuple[str, ...]:
    return ("view", "word-clusters") if recipe.vectors.train else ("view",)


def _files(recipe: Recipe) -> tuple[str, ...]:
    return (recipe.naming.codes, recipe.naming.synonyms)


READER = Kind("reader", partial(_save, kind="reader"), _load_reader)
LISTED = Kind("candidates", _save_listed, _load_listed)
CLUSTERS = Step("word-clusters", _clusters, always("word-vectors"))
READERS = tuple(
    Step(f"reader{part}", partial(_reader_without, part=part), _needs, sections=SECTIONS, kind=READER, files=_files)
    for part in range(PARTS)
)
READ = Step("reader", _reader, _needs, sections=SECTIONS, kind=READER, files=_files)
LIST = Step(
    "candidates", _listed, always("view", *(step.name for step in READERS)), sections=SECTIONS, kind=LISTED, files=_files
)
BY_CANDIDATES = (CLUSTERS, *READERS, READ, LIST)
