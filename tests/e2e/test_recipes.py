"""Every recipe of the package fits, predicts, explains and survives a folder; and none learns from random labels."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plant.coder import Coder
from plant.data.builder import build_corpus
from plant.data.roles import Plan
from plant.nn.parts.table import ENCODERS
from plant.recipe.reading import load_recipe, named_recipes
from plant.steps.fit import fit_coder
from plant.systems.members import member_recipes
from tests.made_up import marked_by_chance, notes_of

SMALL = ("prepare.min_count=1", "fit.epochs=2", "fit.frozen_epochs=0", "fit.unfreezing_epochs=0", "rank.epochs=3",
         "pretrain.epochs=1", "pretrain.embedding=16", "pretrain.hidden=16", "pretrain.layers=2", "masked.epochs=1",
         "fit.batch=8", "rank.hidden=8", "pretrain.batch=8", "candidates.deals=1",
         "kept.first=tfidf", "kept.candidates=3", "kept.prompt=30")  # fmt: skip
EACH = 120  # fitted notes, and reported ones, of random codes
RATE = 1e-3  # below it, two epochs learn nothing
HALVES = {half for name in named_recipes() for half in load_recipe(name).members if half.startswith(f"{name}-")}
RECIPES = [name for name in named_recipes() if name not in HALVES]  # a half is fitted with its other half
DISTINCT = [name for name in RECIPES if f"{name}-small" not in RECIPES]  # in the sizes of here both are the same parts
CHANCE = [name if name in DISTINCT else pytest.param(name, marks=pytest.mark.slow) for name in RECIPES]


def small(name: str, *changes: str) -> Coder:
    """The recipe with few epochs, and with encoders of the sizes that they themselves call tiny."""
    members = [load_recipe(member) for member in load_recipe(name).members or (name,)]
    parts = [member for member in members if member.system in ("classifier", "kept", "label-tree")]
    options = {option: value for member in parts for option, value in ENCODERS.tiny(member.encoder.name).items()}
    if any(member.system == "kept" for member in parts):
        options |= {"window": 60}  # of which a prompt takes half
    tiny = [f"encoder.{option}={json.dumps(value)}" for option, value in options.items()]
    rates = [f"fit.learning_rate={RATE}"] if any(member.fit.learning_rate < RATE for member in parts) else []
    return Coder(name, *SMALL, *tiny, *rates, *changes)


@pytest.fixture(scope="module")
def notes() -> tuple[list[str], list[tuple[str, ...]]]:
    made = notes_of(60, n_codes=4)
    return [note.text for note in made], [note.codes for note in made]


@pytest.mark.parametrize("name", DISTINCT)
def test_a_recipe_fits_predicts_explains_and_loads(
    name: str, notes: tuple[list[str], list[tuple[str, ...]]], tmp_path: Path
) -> None:
    texts, codes = notes
    coder = small(name).fit(texts, codes, choose=0.3)
    prediction = coder.predict(texts[:3], top=4)[0]
    assert [scored.probability for scored in prediction.ranked] == sorted(
        (scored.probability for scored in prediction.ranked), reverse=True
    )
    for scored in prediction.ranked:
        assert all(texts[0][span.start : span.end] == span.text for span in scored.evidence)
    coder.save(tmp_path / "coder")
    loaded = Coder.load(tmp_path / "coder")
    np.testing.assert_array_equal(loaded.predict_proba(texts[:5]), coder.predict_proba(texts[:5]))
    assert loaded.predict(texts[:2]) == coder.predict(texts[:2])


@pytest.mark.parametrize("name", CHANCE)
@pytest.mark.usefixtures("unchecked")  # the same calls are checked above
def test_random_labels_score_nothing_on_held_out_notes(name: str) -> None:
    assert abs(auc_of_chance(name) - 0.5) <= 0.05


SHOWING = ("tfidf", "dictionary", "interaction", "xr-linear", pytest.param("candidates", marks=pytest.mark.slow))


@pytest.mark.parametrize("name", SHOWING)
@pytest.mark.usefixtures("unchecked")
def test_the_leak_test_would_catch_a_leak(name: str) -> None:
    """By words, spans, names, trees of labels and judges; networks learn nothing by heart in one epoch."""
    assert auc_of_chance(name, leak=True) > 0.6


def auc_of_chance(name: str, *, leak: bool = False) -> float:
    """What a recipe makes of reported notes whose codes are random, marked and named; `leak` fits on them too."""
    notes, book = marked_by_chance(2 * EACH, n_codes=16)
    splits = ["train"] * EACH + ["train" if leak else "test"] * EACH
    notes = [replace(note, split=split) for note, split in zip(notes, splits, strict=True)]
    recipe = small(name, "fit.epochs=1").recipe
    prepare = member_recipes(recipe)[0].prepare
    corpus = build_corpus(notes, book, prepare, plan=Plan(("train",), 0.15, () if leak else ("test",)))
    coder = Coder(recipe, fitted=fit_coder(corpus, recipe))
    gold = np.array([[code in note.codes for code in coder.classes_] for note in notes[EACH:]])
    return mean_auc(coder.predict_proba([note.text for note in notes[EACH:]]), gold)


def mean_auc(scores: np.ndarray, gold: np.ndarray) -> float:
    """The mean over labels of the share of (positive, negative) pairs in the right order, ties half."""
    values = []
    for column, truth in zip(scores.T, gold.T, strict=True):
        positive, negative = column[truth], column[~truth]
        values.append(np.mean(np.sign(positive[:, None] - negative[None, :]) / 2 + 0.5))
    return float(np.mean(values))
