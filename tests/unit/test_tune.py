"""Knobs are tried, judged by the choosing notes alone, and a search that was stopped goes on."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plant.cluster.pool import Here
from plant.cluster.tune import by_workers
from plant.data.corpus import Role
from plant.data.store import save_corpus
from plant.errors import InputError, RecipeError
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


@pytest.mark.parametrize("text", ["a.b", "=1..2", "a.b=", "a.b=3..1", "a.b=0..1:log", "a.b=x..y"])
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
