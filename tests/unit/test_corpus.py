"""A corpus holds every note, and its doors let through only what they should."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from plant.data.corpus import Corpus, Documents, Role, TrainingView, held_out, training_view
from plant.data.roles import Plan, parse_plan
from plant.data.store import load_corpus, save_corpus
from plant.errors import InputError
from plant.store.artifact import open_artifact, save_artifact
from plant.text.tokenizer import tokenize
from plant.types import Note, Span
from tests.made_up import corpus_of, notes_of


def _words(corpus: Corpus, row: int) -> list[str]:
    return [corpus.vocab.tokens[token] for token in corpus.documents.tokens_of(row)]


def test_notes_come_back_as_they_were() -> None:
    notes = notes_of(20)
    corpus = corpus_of(notes)
    for row, note in enumerate(notes):
        assert corpus.documents.text_of(row) == note.text
        assert {corpus.codes[label] for label in corpus.documents.labels_of(row)} == set(note.codes)
        known = [word if word in corpus.vocab.numbers else "<unk>" for word in tokenize(note.text).forms]
        assert _words(corpus, row) == known


def test_the_vocabulary_knows_fitted_notes_only() -> None:
    notes = [Note("a", "alpha beta", ("x",), "train"), Note("b", "alpha gamma", ("x",), "dev")]
    assert corpus_of(notes).vocab.tokens[2:] == ("alpha", "beta")


def test_different_surfaces_of_a_word_are_one_token() -> None:
    notes = [Note("a", "Fiebre fiebre FIEBRE", ("x",), "train")]
    assert _words(corpus_of(notes), 0) == ["fiebre"] * 3


def test_the_training_view_cannot_yield_a_held_out_row() -> None:
    corpus = corpus_of(notes_of(30))
    view = training_view(corpus)
    fitted = {note_id for note_id, role in zip(corpus.documents.ids, corpus.role, strict=True) if role == Role.FIT}
    assert set(view.documents.ids) == fitted
    for name in (field.name for field in fields(Documents)):
        array = getattr(view.documents, name)
        assert not isinstance(array, np.ndarray) or not np.shares_memory(array, getattr(corpus.documents, name))
    assert not any(isinstance(getattr(view, field.name), Corpus) for field in fields(TrainingView))


def test_held_out_notes_are_no_way_around_the_training_view() -> None:
    corpus = corpus_of(notes_of(10))
    with pytest.raises(ValueError, match="training_view"):
        held_out(corpus, Role.FIT, corpus.codes)


def test_labels_of_both_doors_mean_the_same_codes() -> None:
    notes = [Note("a", "one", ("x", "z"), "train"), Note("b", "two", ("y", "z"), "test")]
    corpus = corpus_of(notes)
    view = training_view(corpus)
    assert view.codes == ("x", "z")
    tested = held_out(corpus, Role.REPORT, view.codes)
    assert [view.codes[label] for label in tested.labels_of(0)] == ["z"]


def test_evidence_follows_its_note() -> None:
    notes = [
        Note("a", "one two", ("x",), "train", evidence={"x": (Span(0, 3),)}),
        Note("b", "three four", ("y", "x"), "test", evidence={"y": (Span(0, 5),), "x": (Span(6, 10),)}),
    ]
    view = training_view(corpus_of(notes))
    assert view.documents.evidence_spans.tolist() == [[0, 3]]
    tested = held_out(corpus_of(notes), Role.REPORT, ("x",))
    assert tested.evidence_spans.tolist() == [[6, 10]]
    assert tested.evidence_starts.tolist() == [0, 1]


def test_a_saved_corpus_is_the_same(tmp_path: Path) -> None:
    corpus = corpus_of(notes_of(25))
    save_corpus(corpus, tmp_path / "corpus", recipe={})
    loaded = load_corpus(tmp_path / "corpus")
    assert (loaded.vocab, loaded.codes, loaded.splits, loaded.groups) == (
        corpus.vocab, corpus.codes, corpus.splits, corpus.groups,
    )  # fmt: skip
    assert loaded.codebook.descriptions == dict(corpus.codebook.descriptions)
    for name in (field.name for field in fields(Documents)):
        np.testing.assert_array_equal(getattr(loaded.documents, name), getattr(corpus.documents, name))
    np.testing.assert_array_equal(loaded.role, corpus.role)


def test_files_and_memory_give_the_same_corpus(tmp_path: Path) -> None:
    from plant.data.builder import build_corpus
    from plant.recipe.schema import Prepare

    notes = notes_of(25)
    in_memory, in_files = (build_corpus(notes, None, Prepare(min_count=1), workspace=w) for w in (None, tmp_path))
    for name in (field.name for field in fields(Documents)):
        np.testing.assert_array_equal(getattr(in_memory.documents, name), getattr(in_files.documents, name))


def test_a_limit_on_length_is_counted() -> None:
    from plant.data.builder import build_corpus
    from plant.recipe.schema import Prepare

    notes = [Note("a", "one two three", ("x",), "train"), Note("b", "four", ("x",), "train")]
    assert build_corpus(notes, None, Prepare(min_count=1, max_tokens=2)).tokens_lost == 1


@pytest.mark.parametrize(
    ("plan", "roles"),
    [
        (parse_plan(), "fit choose unused report unlabelled"),
        (parse_plan(fit="train,dev2", report="test"), "fit choose fit report unlabelled"),
        (parse_plan(choose="dev2", report="dev,test"), "fit report choose report unlabelled"),
    ],
)
def test_splits_get_the_roles_of_the_plan(plan: Plan, roles: str) -> None:
    names = ("train", "dev", "dev2", "test", "more")
    notes = [Note(name, "word", () if name == "more" else ("x",), name) for name in names]
    assert " ".join(Role(role).name.lower() for role in corpus_of(notes, plan=plan).role) == roles


def test_a_share_for_choosing_keeps_patients_together() -> None:
    notes = [Note(f"{p}-{n}", "word", ("x",), "train", group=f"patient{p}") for p in range(100) for n in range(3)]
    corpus = corpus_of(notes, plan=parse_plan(choose="0.2"))
    held = corpus.role == Role.CHOOSE
    assert 0.1 < held.mean() < 0.3
    assert all(len(set(held[first : first + 3])) == 1 for first in range(0, 300, 3))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"fit": "trian"}, "unknown split 'trian'.*Did you mean 'train'"),
        ({"fit": "train", "report": "train"}, "already used to fit"),
        ({"fit": "more"}, "has no codes"),
        ({"choose": "1.5"}, "share lies between 0 and 1"),
    ],
)
def test_an_impossible_plan_is_refused(plan: dict[str, str], message: str) -> None:
    notes = [Note("a", "word", ("x",), "train"), Note("b", "word", (), "more")]
    with pytest.raises(InputError, match=message):
        corpus_of(notes, plan=parse_plan(**plan))


def test_a_corpus_tells_patients_apart_without_naming_them() -> None:
    groups = ("P-77", "P-12", "", "P-77")
    notes = [Note(str(row), "word", ("x",), "train", group=group) for row, group in enumerate(groups)]
    assert corpus_of(notes).groups == ("1", "2", "", "1")


def test_a_patient_in_two_splits_is_refused() -> None:
    notes = [Note("a", "word", ("x",), "train", group="p"), Note("b", "word", ("x",), "test", group="p")]
    with pytest.raises(InputError, match="more than one split"):
        corpus_of(notes)


def test_no_notes_and_no_codes_are_refused() -> None:
    with pytest.raises(InputError, match="no notes"):
        corpus_of([])
    with pytest.raises(InputError, match="has a code"):
        corpus_of([Note("a", "word", (), "train")])


def test_a_corpus_of_earlier_versions_keeps_its_ids_and_groups(tmp_path: Path) -> None:
    corpus = corpus_of([replace(note, group=f"p{number}") for number, note in enumerate(notes_of(20))])
    save_corpus(corpus, tmp_path / "new", recipe={})
    new = open_artifact(tmp_path / "new")
    names = {"ids": list(corpus.documents.ids), "groups": list(corpus.groups), **new.table("documents.json")}
    tensors = {name: array for name, array in new.tensors.items() if not name.startswith(("ids", "groups"))}
    files = {name: new.text(name) for name in ("vocab.txt", "codebook.jsonl")} | {"documents.json": json.dumps(names)}
    save_artifact(tmp_path / "old", "corpus", tensors=tensors, files=files, facts=new.manifest.facts)
    for path in ("new", "old"):
        found = load_corpus(tmp_path / path)
        assert (found.documents.ids, found.groups) == (corpus.documents.ids, corpus.groups)
