"""The steps to a coder by candidates: readers of parts of the notes, their candidates, a reader of all, a judge.

Every fitted note is read by a reader that has not seen it: the judge learns what readers are worth on new notes.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates.clusters import WordClusters, cluster_words
from plant.candidates.crossfit import dealt, drawn, keys_of
from plant.candidates.judge import Lessons, TaughtJudge, columns_of, teach, unpack_taught
from plant.candidates.listing import Lister, list_rows, right_rows, row_features
from plant.candidates.mentions import mentions_of
from plant.candidates.reader import Book, Reader, TaughtNote, fit_reader, unpack_reader
from plant.candidates.rows import ListedNotes, Rows, listed
from plant.candidates.said import LOOKS, Heard, Looks, SaidOfNotes, said_together
from plant.candidates.words import stemmer, words_of
from plant.codes.further import further_book, further_files
from plant.codes.parts import recombined
from plant.data.batches import together
from plant.data.corpus import Documents, TrainingView, renumber_labels, take
from plant.errors import InputError
from plant.recipe.schema import Candidates, Naming, Recipe
from plant.relevance.store import Named
from plant.steps.constants import digest_of_constants, digest_of_data, modules_of
from plant.steps.step import Planned, Step, Work, always, planned
from plant.steps.views import CHOOSING
from plant.store.artifact import Manifest, open_artifact, save_artifact
from plant.store.keeper import Kind
from plant.systems.candidates import heard_in
from plant.systems.system import readings
from plant.text.language import language_of

PARTS = 3  # of the fitted notes: each is read by a reader of the others
FOLDS = 5  # of the judge
MOST_JUDGED = 3000  # fitted notes that teach the judge; of more, so many are drawn
OPTIONS = "options.json"
SECTIONS = ("candidates", "naming", "seed")
READ_FOR_LANGUAGE = 200  # words of each note
FORMAT = 1  # of readers and rows: raised where the same constants come to mean something else
ROOM = "plant.candidates"
JUDGING = ("boosting", "judge", "note_features")  # modules of the room that decide neither readers nor rows
LISTING = ("composing", "listing", "name_features", "rows", "said", "span_features", "suggesting", "wordings_read")


def reader_constants(recipe: Recipe) -> dict[str, Any]:
    """What decides a reader besides the recipe: the constants of all that a reader is made of."""
    room = modules_of(ROOM, without=(*JUDGING, *LISTING))
    constants = digest_of_constants(*room, "plant.codes.parts", "plant.text.grades", "plant.text.language")
    return {"format": FORMAT, "parts": PARTS, "constants": constants}


def listing_constants(recipe: Recipe) -> dict[str, Any]:
    """What decides rows besides the readers: the constants of their features, and cues and headings of languages."""
    texts = ("plant.text.acronyms", "plant.text.cues", "plant.text.sections")
    constants = digest_of_constants(*(f"{ROOM}.{name}" for name in LISTING), *texts)
    languages = digest_of_data("plant.text.languages", ".toml")
    return {"format": FORMAT, "most judged": MOST_JUDGED, "constants": constants, "languages": languages}


def judge_constants(recipe: Recipe) -> dict[str, Any]:
    """What decides a judge besides the rows."""
    return {"folds": FOLDS, "judge": digest_of_constants(*(f"{ROOM}.{name}" for name in JUDGING))}


def taught_notes(view: TrainingView, language: str, rows: Iterable[int] | None = None) -> list[TaughtNote]:
    """The fitted notes, or some of them, as readers are taught them."""
    documents, stem = view.documents, stemmer(language)
    if not documents.text.size:
        raise InputError("candidates are looked for in texts: prepare the corpus with prepare.keep_text = true")
    keys = keys_of(documents.ids).tolist()
    return [_taught(documents, row, stem, keys[row]) for row in (range(len(documents)) if rows is None else rows)]


def _taught(documents: Documents, row: int, stem: Callable[[str], str], key: int) -> TaughtNote:
    words = words_of(documents.text_of(row), stem)
    marked = slice(documents.evidence_starts[row], documents.evidence_starts[row + 1])
    mentions = mentions_of(words, documents.evidence_spans[marked], documents.evidence_labels[marked])
    return TaughtNote(key, words, mentions, frozenset(documents.labels_of(row).tolist()))


def language_for(view: TrainingView, recipe: Candidates) -> str:
    """The language that the recipe names, or the one of the fitted notes."""
    if recipe.language != "auto":
        return recipe.language
    rows = range(len(view.documents))
    seen = [number for row in rows for number in view.documents.tokens_of(row)[:READ_FOR_LANGUAGE].tolist()]
    return language_of(view.vocab.tokens[number] for number in seen)


def book_of(view: TrainingView, labels: Sequence[int], naming: Naming) -> Book:
    """Names of the codes that some notes have, and of the further codes of the recipe's table: of no other codes."""
    names: dict[str, tuple[str, ...]] = {}
    if naming.book:
        names |= {view.codes[label]: view.codebook.names(view.codes[label]) for label in labels}
    if naming.codes:
        table = further_book(naming.codes, system=view.codebook.system)
        names |= {code: (*names.get(code, ()), *table.names(code)) for code in table.codes}
    return Book(view.codebook.system, {code: tuple(dict.fromkeys(own)) for code, own in names.items() if own})


def nothing_to_look_for(view: TrainingView, naming: Naming) -> bool:
    """Whether no word of the fitted notes is marked and none of their codes has a name."""
    return not len(view.documents.evidence_labels) and not book_of(view, range(len(view.codes)), naming).names


def parts_of(view: TrainingView, seed: int, deal: int = 0) -> NDArray[np.int64]:
    """The part of each fitted note in one way of dealing them."""
    return dealt(view.documents.ids, parts=PARTS, seed=seed, what=of_deal("reader", deal))


def of_deal(name: str, deal: int) -> str:
    """The name of a thing that there is once for each way of dealing the notes."""
    return f"deal{deal}-{name}" if deal else name


def judged_rows(view: TrainingView, seed: int) -> NDArray[np.int64]:
    """The fitted notes whose candidates teach the judge."""
    return drawn(view.documents.ids, most=MOST_JUDGED, seed=seed, what="judge's notes")


def read_by(view: TrainingView, rows: Sequence[int], work: Work) -> Reader:
    """A reader of some of the fitted notes, in the order of their ids."""
    recipe, naming = work.section(Candidates), work.section(Naming)
    language = language_for(view, recipe)
    notes = taught_notes(view, language, sorted(rows, key=lambda row: view.documents.ids[row]))
    labels = sorted({label for note in notes for label in note.labels})
    clusters: Named[WordClusters] | None = work.get("word-clusters")
    return fit_reader(
        notes,
        view.codes,
        book_of(view, labels, naming),
        language=language,
        longest=recipe.longest,
        clusters=clusters.thing if clusters else None,
        seed=work.seed,
        progress=work.progress,
    )


def _reader_without(work: Work, *, part: int, deal: int) -> Reader:
    view: TrainingView = work["view"]
    return read_by(view, np.flatnonzero(parts_of(view, work.seed, deal) != part).tolist(), work)


def _reader(work: Work) -> Reader:
    view: TrainingView = work["view"]
    return read_by(view, range(len(view.documents)), work)


def _listed(work: Work, *, deal: int) -> ListedNotes:
    """The candidates of the notes that teach a judge, each listed by the reader that has not seen it."""
    view: TrainingView = work["view"]
    recipe, judged = work.section(Candidates), judged_rows(view, work.seed).tolist()
    parts = parts_of(view, work.seed, deal)
    notes = dict(zip(judged, taught_notes(view, language_for(view, recipe), judged), strict=True))
    codes = (*view.codes, *further_codes(view, work.section(Naming)))
    said = _said_of_notes(work, codes)
    found: dict[int, Rows] = {}
    for part in range(PARTS):
        lister = Lister(work[of_deal(f"reader{part}", deal)], codes, recipe.scorers)
        own = [row for row in np.flatnonzero(parts == part).tolist() if row in notes]
        _check_unseen(lister.reader, [notes[row] for row in own])
        for row in own:
            found[row] = list_rows(lister, view.documents.text_of(row), notes[row].words, said(row))
            work.progress("listing candidates", len(found), len(notes))
    return listed([found[row] for row in judged], n_features=len(lister.features))


def _said_of_notes(work: Work, codes: Sequence[str]) -> Callable[[int], list[Heard]]:
    """For a note, what each scorer that has not seen it says of a coder's codes; notes are dealt to scorers once."""
    view, scorers = work["view"], range(len(work.section(Candidates).scorers))
    parts, labels = parts_of(view, work.seed), {code: label for label, code in enumerate(codes)}
    places = {row: place for part in range(PARTS) for place, row in enumerate(_heard_rows(view, work.seed, part))}
    columns = {
        (part, number): np.array([labels.get(code, -1) for code in work[said_by(part, number)].codes], np.int32)
        for part in range(PARTS)
        for number in scorers
    }

    def of(row: int) -> list[Heard]:
        part = int(parts[row])
        return [work[said_by(part, number)].of(places[row], columns[part, number]) for number in scorers]

    return of


def _heard_rows(view: TrainingView, seed: int, part: int) -> list[int]:
    """The notes of a part that teach the judge."""
    judged = judged_rows(view, seed)
    return judged[parts_of(view, seed)[judged] == part].tolist()


def _taught_judge(work: Work, *, deal: int) -> TaughtJudge:
    """A judge of what the readers of one deal listed."""
    view, recipe = work["view"], work.section(Candidates)
    language = language_for(view, recipe)
    lessons = lessons_of(view, work[of_deal("candidates", deal)], language=language, seed=work.seed)
    codes = (*view.codes, *further_codes(view, work.section(Naming)))
    columns = columns_of(codes, row_features(recipe.scorers), view.codebook.system)
    return teach(lessons, columns, seed=work.seed * recipe.deals + deal, progress=work.progress)


def _check_unseen(reader: Reader, notes: Sequence[TaughtNote]) -> None:
    """A reader that had seen a note would list what it had learned by heart."""
    seen = np.isin([note.key for note in notes], reader.seen)
    if seen.any():
        raise AssertionError(f"a reader would list candidates for {seen.sum()} notes that it was fitted on")


def further_codes(view: TrainingView, naming: Naming) -> tuple[str, ...]:
    """Codes that no fitted note has: those of the recipe's table, then those put together from parts of known ones."""
    listed: tuple[str, ...] = ()
    if naming.codes:
        table, known = further_book(naming.codes, system=view.codebook.system), set(view.codes)
        listed = tuple(code for code in table.codes if code not in known and table.names(code))
    return (*listed, *recombined(view.codebook.system, (*view.codes, *listed), view.codes))


def lessons_of(view: TrainingView, found: ListedNotes, *, language: str, seed: int) -> Lessons:
    """The listed notes with their answers."""
    rows = judged_rows(view, seed).tolist()
    notes = taught_notes(view, language, rows)
    right = [right_rows(found.of(place), note) for place, note in enumerate(notes)]
    ids = [view.documents.ids[row] for row in rows]
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


def _load_taught(path: Path) -> TaughtJudge:
    artifact = open_artifact(path, "judge")
    return unpack_taught(json.loads(artifact.text(OPTIONS)), artifact.tensors)


def _clusters(work: Work) -> Named[WordClusters]:
    vectors: Named[NDArray[np.float32]] = work["word-vectors"]
    return Named(cluster_words(vectors.vocab.tokens, vectors.thing), {})


def _needs(recipe: Recipe) -> tuple[str, ...]:
    return ("view", "word-clusters") if recipe.vectors.train else ("view",)


def _needs_of_listing(recipe: Recipe, *, deal: int) -> tuple[str, ...]:
    scorers = range(len(recipe.candidates.scorers))
    said = (said_by(part, number) for part in range(PARTS) for number in scorers)
    return ("view", *(of_deal(f"reader{part}", deal) for part in range(PARTS)), *said)


def _files(recipe: Recipe) -> tuple[str, ...]:
    return (*further_files(recipe.naming.codes), recipe.naming.synonyms)


READER = Kind("reader", partial(_save, kind="reader"), _load_reader)
LISTED = Kind("candidates", _save_listed, _load_listed)
TAUGHT = Kind("judge", partial(_save, kind="judge"), _load_taught)
CLUSTERS = Step("word-clusters", _clusters, always("word-vectors"))
READ = Step("reader", _reader, _needs, sections=SECTIONS, kind=READER, knobs=reader_constants, files=_files, apart=True)


def steps_by_candidates(recipe: Recipe) -> tuple[Step, ...]:
    """A reader of all notes, and for each deal the readers of its parts, what they list, and the judge of that."""
    return (CLUSTERS, READ, *(step for deal in range(recipe.candidates.deals) for step in _steps_of_deal(deal)))


def _steps_of_deal(deal: int) -> Iterator[Step]:
    declared: Any = {"sections": SECTIONS, "files": _files}
    for part in range(PARTS):
        make = partial(_reader_without, part=part, deal=deal)
        own: Any = {"kind": READER, "knobs": reader_constants, "apart": True, "let_go": True}
        yield Step(of_deal(f"reader{part}", deal), make, _needs, **own, **declared)
    list_, needs = partial(_listed, deal=deal), partial(_needs_of_listing, deal=deal)
    candidates = of_deal("candidates", deal)
    yield Step(candidates, list_, needs, kind=LISTED, knobs=listing_constants, let_go=True, **declared)
    teach_, needed = partial(_taught_judge, deal=deal), always("view", candidates)
    yield Step(of_deal("judge", deal), teach_, needed, kind=TAUGHT, knobs=judge_constants, **declared)


def said_by(part: int, number: int) -> str:
    """The name of what a scorer says of a part of the notes, fitted on the others."""
    return f"part{part}/scorer{number}/said"


def scorer_model(number: int) -> str:
    """The name of a scorer's system that was fitted on all notes."""
    return f"scorer{number}/model"


def plan_of_scorers(
    recipe: Recipe, scorers: Sequence[tuple[Recipe, Sequence[Step]]], *, prefix: str, shared: Sequence[str]
) -> Iterator[Planned]:
    """The steps that lead to the model of each scorer, once for all notes and once for each part without it."""
    for part in range(PARTS) if scorers else ():
        place = f"{prefix}part{part}/"
        yield Planned(_view_without(part), recipe, f"{place}view", f"{place}view", {"view": "view"})
        needs = {"corpus": "corpus", "view": f"{place}view"}
        yield Planned(CHOOSING, recipe, f"{place}choosing", f"{place}choosing", needs)
    for number, (scorer, steps) in enumerate(scorers):
        for step in steps:
            yield planned(step, scorer, prefix=f"{prefix}scorer{number}/", given=shared)
            for part in range(PARTS):
                yield _of_part(planned(step, scorer, prefix=f"{prefix}part{part}/scorer{number}/", given=shared),
                               f"{prefix}part{part}/")  # fmt: skip
        for part in range(PARTS):
            place = f"{prefix}part{part}/"
            needs = {"view": "view", "part": f"{place}view", "model": f"{place}scorer{number}/model"}
            name = prefix + said_by(part, number)
            yield Planned(_said_step(part), scorer, name, name.replace("/", "-"), needs)


def _of_part(one: Planned, place: str) -> Planned:
    """The step with the notes of a part in the place of all notes."""
    own = {"view": f"{place}view", "choosing": f"{place}choosing"}
    return replace(one, needs={need: own.get(need, where) for need, where in one.needs.items()})


def _view_without(part: int) -> Step:
    """The fitted notes without those of a part, as if there were no others."""

    def make(work: Work) -> TrainingView:
        view: TrainingView = work["view"]
        return part_of_view(view, np.flatnonzero(parts_of(view, work.seed) != part))

    return Step("view", make, always("view"), sections=("seed",), knobs=lambda recipe: {"without part": part})


def part_of_view(view: TrainingView, rows: NDArray[np.intp]) -> TrainingView:
    """Some of the fitted notes, with the codes that they have."""
    documents = take(view.documents, rows)
    kept = np.unique(documents.labels).astype(np.int64)
    codes = tuple(view.codes[label] for label in kept)
    return replace(view, codes=codes, documents=renumber_labels(documents, kept, n_labels=len(view.codes)))


def _said_step(part: int) -> Step:
    """What a scorer says of the notes of a part, on which it was not fitted."""

    def make(work: Work) -> SaidOfNotes:
        view, without = work["view"], work["part"]
        documents = take(view.documents, np.array(_heard_rows(view, work.seed, part), np.intp))
        n_labels, system = len(without.codes), work["model"].system
        size, heard = together(n_labels), dict[int, Heard]()
        for rows, reading in readings(system, documents, evidence=True, size=size, progress=work.progress):
            heard |= zip(rows.tolist(), heard_in(reading, take(documents, rows)), strict=True)
        return said_together(without.codes, [heard[row] for row in range(len(documents))])

    def knobs(recipe: Recipe) -> dict[str, Any]:
        return {"most judged": MOST_JUDGED, "constants": digest_of_constants(f"{ROOM}.said", "plant.explain.spans")}

    return Step("said", make, always("view", "part", "model"), sections=("seed",), kind=SAID, knobs=knobs)


def _save_said(said: SaidOfNotes, path: Path, *, recipe: Mapping[str, Any], inputs: Mapping[str, str]) -> Manifest:
    files = {OPTIONS: json.dumps(said.codes)}
    looks = {f"look_{name}": getattr(said.looks, name) for name in LOOKS}
    tensors = {"labels": said.labels, "values": said.values, "look_starts": said.look_starts, **looks}
    return save_artifact(path, "said-of-notes", tensors=tensors, files=files, recipe=recipe, inputs=inputs)


def _load_said(path: Path) -> SaidOfNotes:
    artifact = open_artifact(path, "said-of-notes")
    own = {name: np.array(artifact.tensors[name]) for name in ("labels", "values", "look_starts")}
    looks = Looks(*(np.array(artifact.tensors[f"look_{name}"]) for name in LOOKS))
    return SaidOfNotes(tuple(json.loads(artifact.text(OPTIONS))), looks=looks, **own)


SAID = Kind("said-of-notes", _save_said, _load_said)
