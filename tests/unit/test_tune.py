"""Knobs are tried, judged by the choosing notes alone, and a search that was stopped goes on."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.cluster.pool import Here
from plant.cluster.tune import by_workers
from plant.data.corpus import Role
from plant.data.store import save_corpus
from plant.errors import ArtifactError, InputError, RecipeError
from plant.recipe.reading import load_recipe
from plant.steps.tune import JudgeAll, Knob, Search, Trial, Tuned, read_knob, tune
from tests.made_up import corpus_of, notes_of

CORPUS = corpus_of(notes_of(60, n_codes=4))
KNOBS = [read_knob("tfidf.cost=0.001..10:log"), read_knob("tfidf.longest=1..2")]


def tuned(out: Path, trials: int, corpus=CORPUS) -> Tuned:  # type: ignore[no-untyped-def]
    return tune(corpus, "tfidf", KNOBS, out, digest="made up", overrides=["tfidf.min_documents=1"], trials=trials)


@pytest.mark.parametrize(
    ("text", "knob"),
    [
        ("a.b=1..3", Knob("a.b", low=1, high=3, whole=True)),
        ("a.b=0.5..3", Knob("a.b", low=0.5, high=3)),
        ("a.b=1e-4..1e-2:log", Knob("a.b", low=1e-4, high=1e-2, log=True)),
        ("a.b=mi, positive", Knob("a.b", choices=("mi", "positive"))),
    ],
)
def test_ranges_are_read_as_they_are_written(text: str, knob: Knob) -> None:
    assert read_knob(text) == knob


@pytest.mark.parametrize(
    "text", ["a.b", "=1..2", "a.b=", "a.b=3..1", "a.b=0..1:log", "a.b=x..y",
             "a.b=1..inf", "a.b=-inf..2", "a.b=1.0..1e400", "a.b=1..99999999999999999999"])  # fmt: skip
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RecipeError):
        read_knob(text)


def test_a_search_goes_on_where_it_was_stopped_and_leaves_its_best_as_a_recipe(tmp_path: Path) -> None:
    tuned(tmp_path, 2)
    found = tuned(tmp_path, 4)
    rows = list(csv.DictReader((tmp_path / "trials.csv").read_text().splitlines()))
    assert len(rows) == found.trials == 4
    assert float(rows[0]["value"]) == max(float(row["value"]) for row in rows) == found.value
    best = load_recipe(str(tmp_path / "best.toml"))
    assert (repr(best.tfidf.cost), str(best.tfidf.longest)) == (rows[0]["tfidf.cost"], rows[0]["tfidf.longest"])
    assert best.tfidf.min_documents == 1


def test_reported_notes_decide_nothing(tmp_path: Path) -> None:
    reported = np.flatnonzero(CORPUS.role == Role.REPORT)
    role = CORPUS.role.copy()
    role[reported] = Role.UNUSED
    assert tuned(tmp_path / "with", 2) == tuned(tmp_path / "without", 2, replace(CORPUS, role=role))


def test_without_choosing_notes_there_is_nothing_to_judge_by(tmp_path: Path) -> None:
    role = np.where(CORPUS.role == Role.CHOOSE, np.int8(Role.UNUSED), CORPUS.role)
    with pytest.raises(InputError, match="no note is left for choosing"):
        tuned(tmp_path, 1, replace(CORPUS, role=role))


def test_sets_that_are_tried_at_once_are_told_in_the_order_of_their_drawing(tmp_path: Path) -> None:
    save_corpus(CORPUS, tmp_path / "corpus", recipe={})
    changes, found = ["tfidf.min_documents=1"], []
    for name in ("first", "second"):
        about = Search("tfidf", tmp_path / name, "made up", "MAP")
        judge = by_workers(Here(), tmp_path / "corpus", about)

        def backwards(trials: Sequence[Trial], judge: JudgeAll = judge) -> list[tuple[int, float]]:
            return list(judge(trials))[::-1]

        apart = {"judge": judge if name == "first" else backwards, "at_once": 2}
        made = tune(CORPUS, "tfidf", KNOBS, tmp_path / name, digest="made up", overrides=changes, trials=3, **apart)  # type: ignore[arg-type]
        found.append((made, (tmp_path / name / "trials.csv").read_text()))
    assert found[0] == found[1]
    assert found[0][0].trials == 3


@pytest.mark.parametrize(
    ("ranges", "overrides"),
    [
        (["tfidf.cost=1,x,3"], []),  # not only at its ends
        (["prepare.min_count=1..2"], []),  # would change nothing: the corpus is there
        (["tfidf.cost=1..2", "tfidf.cost=3..4"], []),
        (["tfidf.cost=1..2"], ["tfidf.cost=3"]),
    ],
)
def test_knobs_that_cannot_be_searched_are_refused_before_anything_is_made(
    tmp_path: Path, ranges: list[str], overrides: list[str]
) -> None:
    knobs = [read_knob(text) for text in ranges]
    with pytest.raises(RecipeError):
        tune(CORPUS, "tfidf", knobs, tmp_path / "out", digest="made up", overrides=overrides, trials=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "other",
    [
        {"digest": "others"},
        {"measure": "micro-F1"},
        {"overrides": ["tfidf.min_documents=2"]},
        {"knobs": [read_knob("tfidf.longest=1,2")]},
        {"recipe": "prior"},
    ],
)
def test_a_search_of_something_else_does_not_go_on_in_its_folder(tmp_path: Path, other: dict[str, Any]) -> None:
    tuned(tmp_path, 1)
    before = (tmp_path / "best.toml").read_text()
    asked = {"recipe": "tfidf", "knobs": KNOBS, "digest": "made up", "overrides": ["tfidf.min_documents=1"], **other}
    with pytest.raises(InputError, match="choose another folder"):
        tune(CORPUS, asked.pop("recipe"), asked.pop("knobs"), tmp_path, trials=2, **asked)
    assert (tmp_path / "best.toml").read_text() == before


def test_a_search_that_was_killed_while_it_wrote_its_journal_goes_on(tmp_path: Path) -> None:
    tuned(tmp_path, 2)
    journal = tmp_path / "journal.log"
    journal.write_bytes(journal.read_bytes()[:-9])
    assert tuned(tmp_path, 3).trials == 3
    assert tuned(tmp_path, 4).trials == 4


def test_a_damaged_journal_is_told_with_what_to_delete(tmp_path: Path) -> None:
    found = tuned(tmp_path, 2)
    journal = tmp_path / "journal.log"
    journal.write_text("garbage\n" + journal.read_text())
    with pytest.raises(ArtifactError, match="delete it"):
        tuned(tmp_path, 2)
    journal.unlink()
    assert tuned(tmp_path, 2) == found
