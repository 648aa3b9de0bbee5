"""Relevance as lists, as grades, on disk and on the screen."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.cli.show_relevance import show_relevance
from plant.cluster.local import Local
from plant.cluster.pool import Here, Pool
from plant.cluster.relate import by_workers
from plant.data.corpus import TrainingView, take
from plant.errors import InputError
from plant.nn.planting.ranker_store import save_ranker
from plant.recipe.schema import Rank, Relate
from plant.relevance.grades import gains, log_rank_grades, scaled_grades
from plant.relevance.pooled import load_counts, of_frequent_words, pooled, save_counts
from plant.relevance.store import Named, load_relevance, name_files, save_relevance
from plant.steps.rank import rank
from plant.steps.relate import count_all, relate, relate_counts
from plant.text.vocab import Vocab
from tests.relevance_samples import listed, random_view

SCORES = np.array([[0.5, 0.4, 0.4, 0.4, 0.2, 0.1, 0.0, 0.0]], dtype=np.float32)


def named(thing: Any, view: TrainingView) -> Named[Any]:
    return Named(thing, name_files(view.vocab, view.codebook, view.codes))


def test_log_rank_grades_fall_by_one_whenever_the_place_doubles_and_ties_share_the_best() -> None:
    assert log_rank_grades(SCORES)[0].tolist() == [4, 3, 3, 3, 2, 2, 0, 0]


def test_scaled_grades_are_shares_of_the_best_token() -> None:
    np.testing.assert_allclose(scaled_grades(SCORES)[0], [5, 4, 4, 4, 2, 1, 0, 0], rtol=1e-6)


def test_gains_are_powers_of_two_less_one() -> None:
    assert gains(SCORES, "log-rank")[0].tolist() == [15, 7, 7, 7, 3, 3, 0, 0]


def test_a_label_without_tokens_gains_nothing() -> None:
    assert not gains(np.zeros((1, 3), np.float32), "scaled").any()
    assert not gains(np.zeros((1, 3), np.float32), "log-rank").any()


def test_lists_by_token_hold_what_the_lists_by_label_hold() -> None:
    relevance = relate(random_view(1), Relate(keep=6))
    turned = relevance.by_token()
    dense = np.zeros((len(relevance.codes), relevance.n_tokens), np.float32)
    for token in range(relevance.n_tokens):
        mine = slice(turned.starts[token], turned.starts[token + 1])
        assert (np.diff(turned.labels[mine]) > 0).all()
        dense[turned.labels[mine], token] = turned.scores[mine]
    np.testing.assert_array_equal(dense, listed(relevance))


def test_words_that_name_a_label_count_more_and_lists_stay_in_order() -> None:
    view = random_view(0)
    plain = relate(view, Relate())
    chosen = int(plain.tokens[0, 3])
    vocab = Vocab((*view.vocab.tokens[:chosen], "flu", *view.vocab.tokens[chosen + 1 :]))
    book = replace(view.codebook, descriptions={view.codes[0]: "Flu, NOS"})
    named = relate(replace(view, vocab=vocab, codebook=book), Relate(named=999.0))
    assert int(named.tokens[0, 0]) == chosen
    assert named.scores[0, 0] == pytest.approx(1000 * plain.scores[0, 3])
    assert (np.diff(named.scores, axis=1) <= 0).all()
    np.testing.assert_array_equal(named.tokens[1:], plain.tokens[1:])


def test_relevance_comes_back_from_disk_with_its_names(tmp_path: Path) -> None:
    view = random_view(2)
    relevance = relate(view, Relate(keep=4))
    save_relevance(named(relevance, view), tmp_path / "relevance")
    found = load_relevance(tmp_path / "relevance")
    loaded, vocab, codebook = found.thing, found.vocab, found.codebook
    np.testing.assert_array_equal(loaded.tokens, relevance.tokens)
    np.testing.assert_array_equal(loaded.scores, relevance.scores)
    assert (loaded.codes, loaded.form, loaded.n_documents) == (relevance.codes, relevance.form, relevance.n_documents)
    assert vocab == view.vocab
    assert codebook.description("C1") == "the meaning of C1"


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run with relevance and ranker."""
    view = random_view(3, n_documents=60, n_tokens=30)
    relevance = relate(view, Relate())
    trained = rank(relevance, Rank(size=16, epochs=40, k=5), seed=1)
    save_relevance(named(relevance, view), tmp_path / "relevance")
    save_ranker(named(trained, view), tmp_path / "ranker")
    return tmp_path


def shown(path: Path, **options: object) -> Namespace:
    return Namespace(**{"path": str(path), "code": "C1", "top": 3, "json": False, "plot": None, **options})


def test_the_best_words_of_a_code_are_shown_side_by_side(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_relevance(shown(run_folder))
    output = capsys.readouterr().out
    assert "C1  the meaning of C1" in output
    assert "by mutual information" in output
    assert "by the ranker" in output
    assert "nDCG@100" in output


def test_shown_json_lists_the_words_of_both_and_the_bins(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_relevance(shown(run_folder, json=True))
    content = json.loads(capsys.readouterr().out)
    relevance = load_relevance(run_folder / "relevance").thing
    assert [word["word"] for word in content["code"]["by_information"]] == [f"word{t}" for t in relevance.tokens[1, :3]]
    assert len(content["code"]["by_ranker"]) == 3
    assert content["ranker"][-1]["fitted_notes"] == "all"
    assert sum(row["codes"] for row in content["ranker"][:-1]) == content["ranker"][-1]["codes"]


@pytest.mark.parametrize("suffix", [".png", ".html", ".svg"])
def test_a_picture_is_drawn(run_folder: Path, suffix: str) -> None:
    picture = run_folder / f"picture{suffix}"
    show_relevance(shown(run_folder, plot=str(picture)))
    assert picture.stat().st_size > 5000


def test_relevance_without_a_ranker_is_shown_alone(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_folder / "ranker").rename(run_folder / "elsewhere")
    show_relevance(shown(run_folder / "relevance"))
    assert "by the ranker" not in capsys.readouterr().out


def test_a_code_that_no_fitted_note_has_is_a_clear_error(run_folder: Path) -> None:
    with pytest.raises(InputError, match="'C99'"):
        show_relevance(shown(run_folder, code="C99"))


@pytest.mark.parametrize("pool", [Here(), pytest.param(Local(2), marks=pytest.mark.slow)], ids=["here", "local"])
def test_workers_find_the_lists_of_one_process_and_leave_nothing(tmp_path: Path, pool: Pool) -> None:
    view = random_view(4, n_documents=80, n_tokens=40)
    recipe, digests = Relate(keep=6, named=2.0), set()
    for name, find in {"alone": None, "apart": by_workers(pool, tmp_path / "relevance")}.items():
        found = relate(view, recipe, find=find)
        digests.add(save_relevance(named(found, view), tmp_path / name).digest)
    assert len(digests) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["alone", "apart"]


def listed_by_name(found: Named[Any]) -> dict[tuple[str, str], float]:
    relevance, words = found.thing, found.vocab.tokens
    rows = zip(relevance.codes, relevance.tokens.tolist(), relevance.scores.tolist(), strict=True)
    return {
        (code, words[token]): score
        for code, row, worth in rows
        for token, score in zip(row, worth, strict=True)
        if score
    }


def test_counts_of_several_places_give_the_relevance_of_all_their_notes(tmp_path: Path) -> None:
    """A place without some of the codes, whose words have other numbers."""
    view, recipe = random_view(5, n_documents=50, n_tokens=12), Relate(keep=12, named=1.0)
    for number, rows in enumerate((np.arange(30), np.arange(30, 50))):
        part = replace(view, documents=take(view.documents, rows))
        if number:
            order = [0, 1, *np.random.default_rng(0).permutation(np.arange(2, 12)).tolist()]
            new = np.argsort(order).astype(np.int32)
            words = Vocab(tuple(view.vocab.tokens[token] for token in order))
            part = replace(part, vocab=words, documents=replace(part.documents, tokens=new[part.documents.tokens]))
        save_counts(of_frequent_words(count_all([part]), least=0), tmp_path / str(number))
    found = relate_counts(pooled([load_counts(tmp_path / str(number)) for number in range(2)]), recipe)
    assert found.thing.n_documents == 50
    assert listed_by_name(found) == listed_by_name(named(relate(view, recipe), view))


def test_counts_that_leave_a_place_have_no_rare_word_and_no_text(tmp_path: Path) -> None:
    view = random_view(6, n_documents=40)
    rare = {
        word for word, notes in zip(view.vocab.tokens, count_all([view]).thing.token_counts, strict=True) if notes < 12
    }
    counted = of_frequent_words(count_all([view]), least=12)
    save_counts(counted, tmp_path / "counts")
    assert rare.difference(("<pad>", "<unk>"))
    assert not rare.difference(("<pad>", "<unk>")) & set(load_counts(tmp_path / "counts").vocab.tokens)
    assert sorted(f.name for f in (tmp_path / "counts").iterdir()) == [
        "codes.jsonl", "manifest.json", "tensors.safetensors", "vocab.txt",
    ]  # fmt: skip
