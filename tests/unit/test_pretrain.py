"""Pretraining on disk: which text is read, what the manifest records, what is made again."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.cli.main import main
from plant.cli.show_language_model import show_language_model
from plant.data.store import save_corpus
from plant.errors import InputError
from plant.recipe.schema import Prepare, Pretrain, Recipe
from plant.steps.pretrain import Pretrained, Start, pretrain_step
from plant.steps.single import made_at, opened_corpus
from plant.steps.texts import FurtherText
from plant.store.artifact import read_manifest
from plant.types import Note
from tests.made_up import corpus_of, notes_of

TINY = Pretrain(embedding=6, hidden=8, layers=2, epochs=1, batch=3, bptt=6, learning_rate=0.01)
RECIPE = Recipe(prepare=Prepare(min_count=1), pretrain=TINY)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    notes = [*notes_of(20), *(Note(f"u{n}", "worda wordb wordc", split="background") for n in range(3))]
    save_corpus(corpus_of(notes), tmp_path / "corpus", recipe=asdict(RECIPE.prepare))
    return tmp_path / "corpus"


def pretrained(
    corpus: Path, out: Path, recipe: Recipe = RECIPE, *, further: FurtherText | None = None, start: str = "", **how: Any
) -> Pretrained:
    """What `plant pretrain` makes."""
    step = pretrain_step(further or FurtherText(), Start(start))
    return made_at(out, step, recipe, opened_corpus(corpus), **how)


def tokens_by_role(path: Path) -> dict[str, int]:
    from plant.data.corpus import Role
    from plant.data.store import load_corpus

    corpus = load_corpus(path)
    lengths = np.diff(corpus.documents.token_starts)
    return {role.name: int(lengths[corpus.role == role].sum()) for role in Role}


def test_fitted_and_unlabelled_text_is_read_and_no_other(corpus: Path, tmp_path: Path) -> None:
    made = pretrained(corpus, tmp_path / "lm")
    counts = tokens_by_role(corpus)
    assert made.tokens == counts["FIT"] + counts["UNLABELLED"]
    assert read_manifest(tmp_path / "lm").facts["held_out_text"] is False
    assert made.history[-1].perplexity is not None


def test_held_out_text_is_read_only_when_asked_for_and_the_manifest_records_it(corpus: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE, pretrain=replace(TINY, held_out_text=True))
    made = pretrained(corpus, tmp_path / "lm", recipe)
    assert made.tokens == sum(tokens_by_role(corpus).values())
    assert read_manifest(tmp_path / "lm").facts["held_out_text"] is True
    assert made.history[-1].perplexity is None


def test_more_text_is_read_but_for_held_out_notes_in_it(corpus: Path, tmp_path: Path) -> None:
    held_out = next(note for note in notes_of(20) if note.split == "test")
    lines = [{"id": "a", "text": "worda wordb, Wordc! 12"}, {"id": "b", "text": held_out.text}]
    (tmp_path / "more.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    said: list[str] = []
    plain = pretrained(corpus, tmp_path / "plain")
    more = pretrained(corpus, tmp_path / "lm", further=FurtherText((str(tmp_path / "more.jsonl"),), say=said.append))
    assert more.tokens == plain.tokens + 3
    assert any("1 texts left out" in sentence for sentence in said)
    assert not any(held_out.text in sentence for sentence in said)


def test_the_same_model_is_not_made_again_and_another_recipe_is(corpus: Path, tmp_path: Path) -> None:
    made: list[bool] = []
    first, again, of_another_seed, other = (
        pretrained(corpus, tmp_path / "lm", recipe, notify=lambda name, new: made.append(new))
        for recipe in (RECIPE, RECIPE, replace(RECIPE, seed=2), replace(RECIPE, pretrain=replace(TINY, seed=2)))
    )
    assert made == [True, False, False, True], "seeds of a recipe share the language model, which has its own"
    assert first.history == again.history == of_another_seed.history != other.history


def test_a_model_can_start_from_an_earlier_one(corpus: Path, tmp_path: Path) -> None:
    first = pretrained(corpus, tmp_path / "lm")
    second = pretrained(corpus, tmp_path / "more", start=str(tmp_path / "lm"))
    assert second.history[0].loss < first.history[0].loss
    assert "files" in read_manifest(tmp_path / "more").inputs


def test_two_starting_points_are_an_error(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exclude each other"):
        Start(str(tmp_path), ("a", "b")).load(TINY)


def test_a_language_model_shows_its_facts_and_words_of_its_own(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrained(corpus, tmp_path / "lm")
    show_language_model(tmp_path / "lm", prompt="Worda", words=4, samples=2, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert shown["direction"] == "forward"
    assert len(shown["samples"]) == 2
    assert all(text.split()[0] == "worda" and len(text.split()) <= 5 for text in shown["samples"])
    show_language_model(tmp_path / "lm")
    shown = capsys.readouterr().out
    assert "perplexity" in shown
    assert "held out text: no" in shown


def test_a_prompt_is_for_the_language_model_of_a_run(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = replace(RECIPE, pretrain=replace(TINY, direction="backward"))
    pretrained(corpus, tmp_path / "run" / "language-model-backward", recipe)
    for what in (["language-model", str(tmp_path / "run")], [str(tmp_path / "run")]):
        with pytest.raises(SystemExit) as ended:
            main(["show", *what, "--prompt", "worda", "--words", "2", "--samples", "1"])
        assert ended.value.code == 0
        assert "direction: backward" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "pretrain.batch=0"], "pretrain.batch must be at least 1"),
        (["--set", "pretrain.layers=0"], "pretrain.layers must be at least 1"),
        (["--device", "nonsense"], "--device nonsense: torch finds no such device"),
        (["--text", "nowhere.jsonl"], "no file 'nowhere.jsonl'"),
        (["--start", "nowhere"], "nowhere does not exist"),
        (["--published", "nowhere.pth", "nowhere.pkl"], "no file nowhere.pth"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pretrain", str(corpus), "--out", str(tmp_path / "lm"), *options])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert sentence in said
    assert said.count("\n") == 1


def test_a_target_with_other_content_is_refused_before_the_training(corpus: Path) -> None:
    def train(what: str, done: int, total: int | None) -> None:
        raise AssertionError("it should not have begun")

    with pytest.raises(InputError, match="other content"):
        pretrained(corpus, corpus, progress=train)
