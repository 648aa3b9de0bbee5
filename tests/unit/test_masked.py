"""Guessing hidden sub-words: what is hidden, what is read, what is learned, and going on after a kill."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from plant.cli.main import main
from plant.coder import Coder
from plant.data.corpus import Role, TrainingView, training_view
from plant.data.store import save_corpus
from plant.nn.language.masked import ask
from plant.recipe.schema import Masked, Part, Prepare, Recipe
from plant.steps import transform as steps
from plant.steps.single import made_at, opened_corpus
from plant.steps.texts import more_text
from plant.steps.transform import TRANSFORM, Transformed, load_transformed, windows_of
from plant.store.artifact import read_manifest
from plant.train.loop import Runtime
from plant.types import Note
from tests.made_up import corpus_of, notes_of

SHAPE = Part("transformer", {"pieces": 150, "hidden": 16, "layers": 1, "heads": 2})
RECIPE = Recipe(
    prepare=Prepare(min_count=1),
    encoder=SHAPE,
    masked=Masked(epochs=2, window=16, batch=4, learning_rate=3e-3),
)


def transform(view: TrainingView, recipe: Recipe, **options: Any) -> Transformed:
    """The transformer of a recipe."""
    return steps.transform(view, steps.shape_of(recipe), recipe.masked, **options)


def transformed(folder: Path, name: str, recipe: Recipe = RECIPE) -> Transformed:
    """What `plant pretrain` makes of the corpus in a folder."""
    return made_at(folder / name, TRANSFORM, recipe, opened_corpus(folder / "corpus"))


def corpus():
    notes = [*notes_of(30), *(Note(f"u{n}", "worda wordb wordc", split="background") for n in range(3))]
    return corpus_of(notes)


def test_hidden_places_are_the_share_asked_for_and_special_ones_never() -> None:
    tokenizer = transform(training_view(corpus()), replace(RECIPE, masked=Masked())).transformer.tokenizer
    numbers = torch.randint(5, 100, (400, 50))
    words = torch.ones_like(numbers, dtype=torch.bool)
    words[:, 0] = False
    torch.manual_seed(0)
    questions = ask(numbers, words, tokenizer, share=0.15, n_subwords=100)
    assert not questions.asked[:, 0].any()
    assert questions.asked[:, 1:].float().mean().item() == pytest.approx(0.15, abs=0.01)
    hidden = questions.inputs[questions.asked] == tokenizer.mask
    assert hidden.float().mean().item() == pytest.approx(0.8, abs=0.03)
    assert_close(questions.inputs[~questions.asked], numbers[~questions.asked])


def test_training_lowers_the_loss_on_text_that_is_not_trained_on() -> None:
    whole = corpus()
    recipe = replace(RECIPE, masked=replace(RECIPE.masked, epochs=8))
    role = np.where(whole.role == Role.CHOOSE, Role.UNLABELLED, 0).astype(np.int8)
    dev = more_text(replace(whole, role=role), Masked())[0]
    made = transform(training_view(whole), recipe, dev=dev)
    losses = [epoch.dev_loss for epoch in made.history]
    assert losses[-1] is not None
    assert losses[0] is not None
    assert losses[-1] < losses[0] - 0.1


def test_fitted_and_unlabelled_text_is_read_and_held_out_text_only_when_asked_for(tmp_path: Path) -> None:
    whole = corpus()
    save_corpus(whole, tmp_path / "corpus", recipe={})
    plain = transformed(tmp_path, "plain")
    all_text = replace(RECIPE, masked=replace(RECIPE.masked, held_out_text=True))
    every = transformed(tmp_path, "every", all_text)
    view, tokenizer = training_view(whole), plain.transformer.tokenizer
    read = windows_of([view.documents, *more_text(whole, RECIPE.masked)], tokenizer, RECIPE.masked)
    assert plain.subwords == int((read.lengths - 2).sum()) < every.subwords
    assert plain.transformer.tokenizer == every.transformer.tokenizer  # learned from the fitted text alone
    assert plain.history[-1].dev_loss is not None
    assert every.history[-1].dev_loss is None
    assert read_manifest(tmp_path / "every").facts["held_out_text"] is True
    assert read_manifest(tmp_path / "plain").facts["held_out_text"] is False


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    view = training_view(corpus())

    class KilledError(Exception):
        pass

    def kill(what: str, done: int, total: int) -> None:
        if done == total // 2 + 2:
            raise KilledError

    recipe = replace(RECIPE, masked=replace(RECIPE.masked, checkpoint_minutes=0.0))
    whole = transform(view, recipe)
    with pytest.raises(KilledError):
        transform(view, recipe, runtime=Runtime(tmp_path / "checkpoint", progress=kill))
    resumed = transform(view, recipe, runtime=Runtime(tmp_path / "checkpoint"))
    for name, weight in whole.transformer.weights.items():
        assert_close(resumed.transformer.weights[name], weight, rtol=0, atol=0)


def test_what_pretrain_wrote_is_a_folder_that_a_recipe_may_name(tmp_path: Path) -> None:
    save_corpus(corpus(), tmp_path / "corpus", recipe={})
    made = transformed(tmp_path, "transformer")
    again = load_transformed(tmp_path / "transformer")
    assert again.transformer.tokenizer == made.transformer.tokenizer
    notes = notes_of(30, n_codes=3)
    folder = f"encoder.folder={tmp_path / 'transformer'}"
    coder = Coder("bert-small", folder, "masked.epochs=0", "fit.epochs=1", "prepare.min_count=1")
    coder.fit([note.text for note in notes], [note.codes for note in notes], choose=0.3)
    assert coder.predict_proba(["worda"]).shape == (1, 3)


def test_a_recipe_without_epochs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_corpus(corpus(), tmp_path / "corpus", recipe={})
    with pytest.raises(SystemExit) as ended:
        main(["pretrain", str(tmp_path / "corpus"), "--recipe", "bert-small", "--set", "masked.epochs=0", "--out", "x"])
    assert ended.value.code == 2
    assert "masked.epochs=3" in capsys.readouterr().err
