"""Rankers: their formulas, their training, and what is left of it after a crash."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from plant.codes.codebook import CodeBook
from plant.errors import RecipeError
from plant.nn.planting.ranker import RANKERS, BilinearRanker, Ranker, TwoLayerRanker, start_from
from plant.nn.planting.ranker_store import load_ranker, save_ranker
from plant.recipe.schema import Rank
from plant.relevance.store import Named, name_files
from plant.steps.rank import rank
from plant.text.vocab import Vocab
from plant.train.ranker import finished, ranking_quality
from plant.train.seed import seeded
from tests.relevance_samples import small_relevance

FORMS = ("bilinear", "mlp")
QUICK = Rank(size=8, hidden=8, epochs=6, labels_per_batch=4, k=5)
TOKENS, LABELS = torch.tensor([3, 0, 7, 7, 2]), torch.tensor([4, 1, 4])


def ranker_of(form: str, *, n_tokens: int = 9, n_labels: int = 5) -> Ranker:
    with seeded(1):
        ranker = RANKERS.build(form, {"size": 6}, n_tokens=n_tokens, n_labels=n_labels).double()
        for parameter in ranker.parameters():
            torch.nn.init.normal_(parameter)
    return ranker


def plain_score(ranker: Ranker, token: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """The printed formula for one pair."""
    of_token, of_label = ranker.token_vectors[token], ranker.label_vectors[label]
    if isinstance(ranker, BilinearRanker):
        return of_token @ of_label + ranker.token_bias[token] + ranker.label_bias[label]
    weights = torch.cat([ranker.label_layer, ranker.token_layer], dim=1)
    hidden = (weights @ torch.cat([of_label, of_token]) + ranker.hidden_bias).relu()
    return ranker.output @ hidden + ranker.output_bias[0]


def plain_scores(ranker: Ranker, label: torch.Tensor) -> torch.Tensor:
    """The printed formula for all tokens and one label."""
    return torch.stack([plain_score(ranker, token, label) for token in TOKENS])


@pytest.mark.parametrize("form", FORMS)
def test_scores_follow_the_printed_formula(form: str) -> None:
    ranker = ranker_of(form)
    expected = torch.stack([plain_scores(ranker, label) for label in LABELS])
    torch.testing.assert_close(ranker.scores(TOKENS, LABELS), expected)


@pytest.mark.parametrize("form", FORMS)
def test_scores_of_pairs_are_those_of_the_whole_table(form: str) -> None:
    ranker = ranker_of(form)
    labels, tokens = torch.meshgrid(LABELS, TOKENS, indexing="ij")
    found = ranker.pair_scores(tokens.flatten(), labels.flatten())
    torch.testing.assert_close(found, ranker.scores(TOKENS, LABELS).flatten())


@pytest.mark.parametrize("form", FORMS)
def test_both_ways_of_scoring_give_the_gradients_of_the_formula(form: str) -> None:
    ranker = ranker_of(form)
    slopes = torch.randn(len(LABELS), len(TOKENS), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels, tokens = torch.meshgrid(LABELS, TOKENS, indexing="ij")
    plain = torch.stack([plain_scores(ranker, label) for label in LABELS])
    expected = torch.autograd.grad((plain * slopes).sum(), list(ranker.parameters()))
    pairs = ranker.pair_scores(tokens.flatten(), labels.flatten()).reshape(slopes.shape)
    for scores in (ranker.scores(TOKENS, LABELS), pairs):
        torch.testing.assert_close(torch.autograd.grad((scores * slopes).sum(), list(ranker.parameters())), expected)


def test_trained_vectors_keep_their_directions_at_the_scale_of_random_ones() -> None:
    ranker, vectors = BilinearRanker(50, 3, size=8), 100 * torch.randn(50, 8)
    before = ranker.token_vectors.std().item()
    start_from(ranker, vectors)
    assert ranker.token_vectors.std().item() == pytest.approx(before, rel=1e-4)
    torch.testing.assert_close(torch.cosine_similarity(ranker.token_vectors, vectors), torch.ones(50))


@pytest.mark.parametrize("form", FORMS)
def test_training_finds_the_order_of_the_lists(form: str) -> None:
    relevance = small_relevance(n_documents=60, n_tokens=40, n_labels=12)
    trained = rank(relevance, replace(QUICK, form=form, epochs=60, patience=60), seed=1)
    assert trained.ndcg[:, 0].mean() > 0.97
    assert trained.curve[-1] > trained.curve[0]


def test_the_same_seed_gives_the_same_weights_and_another_does_not() -> None:
    relevance = small_relevance()
    first, again, other = (rank(relevance, QUICK, seed=seed).ranker.token_vectors for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_training_leaves_the_random_state_of_the_caller_alone() -> None:
    before = torch.get_rng_state()
    rank(small_relevance(), QUICK, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


class KilledError(Exception):
    """The end of a run that did not end."""


@pytest.mark.parametrize("killed_at", [7, 8])  # two batches make an epoch
@pytest.mark.parametrize("form", FORMS)
def test_a_killed_training_goes_on_to_the_same_weights(form: str, killed_at: int, tmp_path: Path) -> None:
    relevance, recipe = small_relevance(), replace(QUICK, form=form)
    checkpoint, ran = tmp_path / "checkpoint.safetensors", []

    def killing(what: str, done: int, total: int | None) -> None:
        ran.append(done)
        if done == killed_at:
            raise KilledError

    with pytest.raises(KilledError):
        rank(relevance, recipe, seed=1, checkpoint=checkpoint, checkpoint_seconds=0, progress=killing)
    resumed = rank(
        relevance, recipe, seed=1, checkpoint=checkpoint, progress=lambda what, done, total: ran.append(done)
    )
    whole = rank(relevance, recipe, seed=1)
    assert ran == [*range(1, killed_at + 1), *range(killed_at, 13)]
    assert resumed.curve == whole.curve
    for name, tensor in whole.ranker.state_dict().items():
        assert torch.equal(resumed.ranker.state_dict()[name], tensor)


def test_a_checkpoint_of_another_training_is_not_gone_on_from(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    rank(small_relevance(), QUICK, seed=1, checkpoint=checkpoint, checkpoint_seconds=0)
    other = rank(small_relevance(), QUICK, seed=2, checkpoint=checkpoint)
    assert torch.equal(other.ranker.token_vectors, rank(small_relevance(), QUICK, seed=2).ranker.token_vectors)


def test_training_stops_on_the_plateau_or_when_the_epochs_are_over() -> None:
    rising, flat = [0.1, 0.2, 0.3], [0.1, 0.5, 0.5, 0.5]
    assert not finished([], epochs=9, patience=2)
    assert not finished(rising, epochs=9, patience=2)
    assert finished(rising, epochs=3, patience=2)
    assert finished(flat, epochs=9, patience=2)
    assert not finished(flat, epochs=9, patience=3)


def test_the_width_of_trained_vectors_rules() -> None:
    relevance, recipe = small_relevance(), replace(QUICK, vectors="language-model", epochs=1)
    vectors = np.random.default_rng(0).normal(size=(relevance.n_tokens, 5)).astype(np.float32)
    assert rank(relevance, recipe, seed=1, vectors=vectors).ranker.label_vectors.shape[1] == 5


def test_a_recipe_of_trained_vectors_without_any_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"rank\.vectors"):
        rank(small_relevance(), replace(QUICK, vectors="language-model"), seed=1)


def test_quality_does_not_depend_on_how_many_labels_are_looked_at_at_once() -> None:
    relevance = small_relevance(n_labels=7)
    ranker = TwoLayerRanker(relevance.n_tokens, 7, size=4, hidden=4)
    few, many = (ranking_quality(ranker, relevance, "scaled", labels_at_once=n) for n in (2, 64))
    np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_ranker_comes_back_as_it_was(form: str, tmp_path: Path) -> None:
    relevance = small_relevance()
    trained = rank(relevance, replace(QUICK, form=form, hidden=3), seed=1)
    words = Vocab(tuple(f"word{number}" for number in range(relevance.n_tokens)))
    files = name_files(words, CodeBook("other", relevance.codes, {}), relevance.codes)
    save_ranker(Named(trained, files), tmp_path / "ranker")
    loaded = load_ranker(tmp_path / "ranker").thing
    assert (loaded.form, loaded.curve, loaded.parameters) == (trained.form, trained.curve, trained.parameters)
    np.testing.assert_array_equal(loaded.ndcg, trained.ndcg)
    assert torch.equal(loaded.ranker.scores(TOKENS, LABELS), trained.ranker.scores(TOKENS, LABELS))
