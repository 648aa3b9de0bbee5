"""Rows that are moved when they are asked for end where AdamW, which moves all of them all the time, puts them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from plant.nn.planting.ranker import Ranker
from plant.recipe.schema import Rank
from plant.steps.rank import rank
from plant.train import ranker as training
from plant.train import rows as rows_module
from plant.train.rows import LazyRows
from tests.relevance_samples import small_relevance

N, WIDTH, STEPS = 50, 7, 400
QUICK = Rank(size=8, epochs=6, labels_per_batch=2, k=5)


def tables() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"vectors": torch.randn(N, WIDTH), "bias": torch.randn(N)}


def slopes_at(step: int) -> tuple[np.ndarray, list[torch.Tensor]]:
    """A few rows of the first steps, then one row alone: most are left alone for long."""
    random = np.random.default_rng(step)
    rows = random.choice(N, 4, replace=False) if step < 60 else np.array([3])
    return rows, [
        torch.from_numpy(random.normal(size=(len(rows), *shape)).astype(np.float32)) for shape in ((WIDTH,), ())
    ]


def moved_by_adamw(decay: float) -> dict[str, torch.Tensor]:
    found = tables()
    optimizer = torch.optim.AdamW(found.values(), lr=0.1, betas=(0.9, 0.99), weight_decay=decay)
    for step in range(STEPS):
        rows, slopes = slopes_at(step)
        for table, slope in zip(found.values(), slopes, strict=True):
            table.grad = torch.zeros_like(table).index_copy_(0, torch.from_numpy(rows), slope)
        optimizer.step()
    return found


def moved_lazily(decay: float, *, steps: range = range(STEPS), lazy: LazyRows | None = None) -> LazyRows:
    lazy = lazy or LazyRows(tables(), 0.1, (0.9, 0.99), decay)
    for step in steps:
        rows, slopes = slopes_at(step)
        for leaf, slope in zip(lazy.lend(rows), slopes, strict=True):
            leaf.grad = slope
        lazy.update()
    return lazy


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_rows_end_where_adamw_puts_them(decay: float) -> None:
    lazy = moved_lazily(decay)
    lazy.settle()
    for name, table in moved_by_adamw(decay).items():
        assert_close(lazy.tables[name], table.detach(), rtol=2e-5, atol=2e-5)


def test_rows_that_are_lent_are_up_to_date() -> None:
    lazy = moved_lazily(0.0)
    lent, _ = lazy.lend(np.arange(N))
    assert_close(lent.detach(), moved_by_adamw(0.0)["vectors"].detach(), rtol=2e-5, atol=2e-5)


def test_what_a_checkpoint_keeps_goes_on_to_the_same_bits() -> None:
    whole, half = moved_lazily(0.01), moved_lazily(0.01, steps=range(30))
    other = LazyRows({name: table.clone() for name, table in half.tables.items()}, 0.1, (0.9, 0.99), 0.01)
    other.load_state_dict({name: tensor.clone() for name, tensor in half.state_dict().items()})
    moved_lazily(0.01, steps=range(30, STEPS), lazy=other)
    for lazy in (whole, other):
        lazy.settle()
    assert all(torch.equal(whole.tables[name], other.tables[name]) for name in whole.tables)


def orders(ranker: Ranker) -> torch.Tensor:
    """The scores within each label; what all of a label's tokens share is learned from rounding alone."""
    relevance = small_relevance()
    scores = ranker.scores(torch.arange(relevance.n_tokens), torch.arange(len(relevance.codes)))
    return scores - scores.mean(1, keepdim=True)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even few labels are moved lazily."""
    monkeypatch.setattr(training, "moves_rows_lazily", lambda *_: True)


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
def test_a_ranker_learns_the_same_with_lazy_rows(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Rank(form=form, size=8, hidden=8, epochs=3, labels_per_batch=2, k=5, learning_rate=0.01)
    expected = rank(small_relevance(), recipe, seed=1)
    monkeypatch.setattr(training, "moves_rows_lazily", lambda *_: True)
    found = rank(small_relevance(), recipe, seed=1)
    assert_close(orders(found.ranker), orders(expected.ranker), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.curve, expected.curve, atol=1e-6)


@pytest.mark.usefixtures("lazy")
def test_a_killed_ranking_with_lazy_rows_ends_with_the_same_bits(tmp_path: Path) -> None:
    def interrupted(what: str, done: int, total: int | None) -> None:
        if done == 7:
            raise KeyboardInterrupt

    expected = rank(small_relevance(), QUICK, seed=1)
    path = tmp_path / "ranker.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        rank(small_relevance(), QUICK, seed=1, checkpoint=path, checkpoint_seconds=0, progress=interrupted)
    assert path.exists()
    found = rank(small_relevance(), QUICK, seed=1, checkpoint=path, checkpoint_seconds=0)
    for ours, theirs in zip(found.ranker.parameters(), expected.ranker.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_dense_optimizer_serves_until_an_epoch_forgets_a_row() -> None:
    few, many = (rows_module.MOST * QUICK.labels_per_batch + more for more in (0, 1))
    device = torch.device("cpu")
    assert not training.moves_rows_lazily(few, QUICK, device)
    assert training.moves_rows_lazily(many, QUICK, device)
    assert not training.moves_rows_lazily(many, QUICK, torch.device("cuda"))
