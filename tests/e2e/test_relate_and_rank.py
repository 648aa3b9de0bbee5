"""`plant relate` and `plant rank` on a corpus in a folder."""

import json
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from plant.cli import rank, relate
from plant.cli.main import main
from plant.data.corpus import training_view
from plant.data.store import save_corpus
from plant.nn.language.awd_lstm import AWDLSTM, LanguageModel
from plant.nn.language.store import save_language_model
from plant.nn.planting.ranker_store import load_ranker
from plant.recipe.reading import load_recipe
from plant.relevance.store import load_relevance
from plant.steps import rank as rank_stage
from plant.steps import relate as relate_stage
from plant.types import Note
from tests.made_up import corpus_of, notes_of

QUICK = ["--set", "rank.epochs=2", "--set", "rank.size=8"]


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    save_corpus(corpus_of(notes_of(60)), tmp_path / "corpus", recipe={})
    call(relate, tmp_path / "corpus", "--out", tmp_path / "relevance")
    return tmp_path


def call(verb: ModuleType, *arguments: object) -> None:
    parser = ArgumentParser()
    verb.configure(parser)
    verb.run(parser.parse_args([str(argument) for argument in arguments]))


def test_the_word_of_a_code_comes_first(run_folder: Path) -> None:
    relevance = load_relevance(run_folder / "relevance").thing
    words = (run_folder / "relevance" / "vocab.txt").read_text().split("\n")
    for code, tokens in zip(relevance.codes, relevance.tokens, strict=True):
        assert words[tokens[0]] == f"sign{code.lower()}x"


def test_relevance_is_that_of_the_fitted_notes_alone(run_folder: Path) -> None:
    assert load_relevance(run_folder / "relevance").thing.n_documents == 36


def test_what_is_there_already_is_not_made_again(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(rank, run_folder / "relevance", "--out", run_folder / "ranker", *QUICK)
    assert "written" in capsys.readouterr().err
    call(rank, run_folder / "relevance", "--out", run_folder / "ranker", *QUICK)
    assert "already there" in capsys.readouterr().err
    call(rank, run_folder / "relevance", "--out", run_folder / "ranker", *QUICK, "--set", "seed=2")
    assert "written" in capsys.readouterr().err


def test_quality_by_frequency_is_printed(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(rank, run_folder / "relevance", "--out", run_folder / "ranker", *QUICK)
    assert "nDCG@15" in capsys.readouterr().out


def test_words_start_from_a_language_model(run_folder: Path) -> None:
    corpus = corpus_of(notes_of(60))
    model = LanguageModel(corpus.vocab, AWDLSTM(len(corpus.vocab), embedding=12, hidden=8, layers=1))
    save_language_model(model, run_folder / "language-model")
    call(
        rank, run_folder / "relevance", "--out", run_folder / "ranker", "--language-model",
        run_folder / "language-model", "--set", "rank.epochs=1", "--set", "rank.learning_rate=1e-9",
    )  # fmt: skip
    vectors = load_ranker(run_folder / "ranker").thing.ranker.token_vectors
    alike = torch.cosine_similarity(vectors, model.network.words)
    torch.testing.assert_close(alike, torch.ones(len(corpus.vocab)))


@pytest.mark.corpora
def test_the_default_ranker_knows_the_best_words_of_real_codes(corpora: Path) -> None:
    lines = (corpora / "cantemist" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    notes = [Note(row["id"], row["text"], tuple(dict.fromkeys(row["labels"])), split="train") for row in rows]
    view = training_view(corpus_of(notes, min_count=3))
    recipe = load_recipe("plant")
    trained = rank_stage.rank(relate_stage.relate(view, recipe.relate), replace(recipe.rank, epochs=8), seed=1)
    assert trained.ndcg[:, 1].mean() > 0.9  # nDCG@15; the default epochs bring 0.999


def test_counts_of_two_places_are_related_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def plant(*arguments: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        return int(end.value.code or 0)

    for place, seed in (("a", 1), ("b", 2)):
        save_corpus(corpus_of(notes_of(30, seed=seed)), tmp_path / place, recipe={})
        counts = tmp_path / f"counts-{place}"
        assert plant("relate", str(tmp_path / place), "--counts", "--least", "2", "--out", str(counts)) == 0
    both = [str(tmp_path / "counts-a"), str(tmp_path / "counts-b")]
    assert plant("relate", *both, "--out", str(tmp_path / "relevance")) == 0
    assert "36 notes of 2 places" in capsys.readouterr().err
    assert load_relevance(tmp_path / "relevance").thing.n_documents == 36
    for wrong in ([str(tmp_path / "a"), both[0]], [both[0], "--counts"]):
        assert plant("relate", *wrong, "--out", str(tmp_path / "x")) == 2
        assert "is a corpus (plant prepare), the shards of one" in capsys.readouterr().err
    assert plant("relate", str(tmp_path / "a"), "--counts", "--least", "-1", "--out", str(tmp_path / "x")) == 2
    assert "--least -1: a number of notes, at least 1" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
