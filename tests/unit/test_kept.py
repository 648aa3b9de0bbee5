"""A system that re-ranks by prompts: over any folder, what it refuses, and what its first system may know."""

from pathlib import Path

import numpy as np
import pytest
import torch

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.errors import InputError, RecipeError
from plant.recipe.reading import load_recipe
from plant.steps.fit import plan_of
from plant.systems.members import member_recipes
from tests.made_up import notes_of
from tests.unit.test_transformer import save_bert, save_xlmr

TINY = ("prepare.min_count=1", "fit.epochs=1", "fit.learning_rate=1e-3", "masked.epochs=0", "kept.first=tfidf",
        "kept.candidates=2", "kept.prompt=20", "encoder.window=36",
        "encoder.overlap=2")  # fmt: skip
BOOK = CodeBook("other", (), {f"C{n}": f"the signc{n}x" for n in range(4)})


@pytest.mark.parametrize("save", [save_bert, save_xlmr])
def test_any_folder_answers_prompts(save, tmp_path: Path) -> None:
    save(tmp_path / "folder")
    notes = notes_of(24, n_codes=4)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    coder = Coder("kept-small", *TINY, f"encoder.folder={tmp_path / 'folder'}").fit(
        texts, codes, choose=0.3, codebook=BOOK
    )
    first = Coder("tfidf", "prepare.min_count=1").fit(texts, codes, choose=0.3, codebook=BOOK)
    scores, before = coder.predict_proba(texts[:4]), first.predict_proba(texts[:4])
    best = np.argsort(-before, 1, kind="stable")
    for row in range(4):
        assert set(np.argsort(-scores[row])[:2]) == set(best[row, :2])  # candidates stand above the others
        assert list(np.argsort(-scores[row])[2:]) == list(best[row, 2:])  # which keep their order
    coder.save(tmp_path / "coder")
    np.testing.assert_array_equal(Coder.load(tmp_path / "coder").predict_proba(texts[:4]), scores)
    with pytest.raises(InputError, match="explained by 'gradient' only"):
        coder.predict(texts[:1], explainer="attention")


def test_the_head_that_a_folder_lacks_is_drawn_from_the_seed_of_the_recipe(tmp_path: Path) -> None:
    save_xlmr(tmp_path / "folder")
    notes = notes_of(24, n_codes=4)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    found = []
    for state in (1, 2):
        torch.manual_seed(state)  # what ran before in the process
        coder = Coder("kept-small", *TINY, f"encoder.folder={tmp_path / 'folder'}")
        found.append(coder.fit(texts, codes, choose=0.3, codebook=BOOK).predict_proba(texts[:4]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("kept.first=plant-interaction", "is made of other recipes"),
        ("kept.first=kept-small", "is made of other recipes"),
        ("kept.first=nothing", "unknown recipe 'nothing'"),
        ("encoder.pool=first", "encoder.pool counts for nothing"),
        ("encoder.name=cnn", "by encoder 'transformer'"),
        ("fit.frozen_epochs=1", "trains all of its network"),
    ],
)
def test_what_prompts_do_not_take_is_refused_before_anything_is_read(change: str, reason: str) -> None:
    with pytest.raises(RecipeError, match=reason):
        member_recipes(load_recipe("kept-small", [change]))


def test_the_first_system_is_fitted_on_the_view_of_fitted_notes() -> None:
    plan = {one.name: one for one in plan_of(load_recipe("kept-small", ["kept.first=tfidf"]))}
    assert plan["first/model"].needs == {"view": "view"}
    assert set(plan["model"].needs.values()) == {"view", "choosing", "transformer", "first/model"}
    assert "first/model" not in {one.name for one in plan_of(load_recipe("kept-small", ["kept.first="]))}
