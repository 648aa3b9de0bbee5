"""Training a ranker on the lists of relevance with LambdaRank, until the plateau of nDCG@k."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from plant.errors import RecipeError
from plant.nn.forms import compiled_for
from plant.nn.planting.lambdarank import lambdarank, ndcg_at
from plant.nn.planting.ranker import RANKERS, Ranker, start_from
from plant.nn.planting.ranker_store import CUTOFFS
from plant.recipe.schema import Rank
from plant.relevance.grades import Grade, gains
from plant.relevance.relevance import Relevance
from plant.train.loop import Phase, Runtime, State, StateDicts, Trainer
from plant.train.rows import MOST, LazyRows
from plant.train.seed import seeded

BETAS = (0.9, 0.99)
LEAST_GAIN = 1e-4  # of nDCG@k: less is a plateau
SECONDS_BETWEEN_CHECKPOINTS = 20.0


@dataclass(frozen=True)
class RankerEpoch:
    """What one epoch of training did; `ndcg` is the mean of the nDCG@k that its steps started from."""

    number: int
    ndcg: float
    seconds: float


def train_ranker(
    ranker: Ranker,
    relevance: Relevance,
    recipe: Rank,
    *,
    seed: int,
    runtime: Runtime[RankerEpoch] = Runtime(),  # noqa: B008  # frozen
    checkpoint_seconds: float = SECONDS_BETWEEN_CHECKPOINTS,
) -> tuple[RankerEpoch, ...]:
    """Train in place until the plateau; goes on from the checkpoint where there is one of this very training."""
    task = RankerTask(ranker.to(runtime.device), relevance, recipe, seed)
    trainer = Trainer(
        RankerEpoch,
        [Phase("all", recipe.epochs)],
        stop=lambda state: finished(curve_of(state.history), epochs=recipe.epochs, patience=recipe.patience),
        checkpoint_minutes=checkpoint_seconds / 60,
    )
    return trainer.fit(task, runtime, seed=seed, fingerprint=_fingerprint(ranker, relevance, recipe, seed))


def curve_of(history: Sequence[RankerEpoch]) -> tuple[float, ...]:
    """The nDCG@k that each epoch went through."""
    return tuple(epoch.ndcg for epoch in history)


def build_ranker(
    relevance: Relevance, recipe: Rank, *, seed: int, vectors: NDArray[np.float32] | None = None
) -> Ranker:
    """A ranker before training; with `vectors` its width is theirs, whatever the recipe says."""
    if (vectors is not None) != (recipe.vectors == "language-model"):
        given = "without" if vectors is None else "with"
        raise RecipeError(f"rank.vectors is {recipe.vectors!r}, but the ranker is trained {given} a language model")
    options = {"size": recipe.size if vectors is None else vectors.shape[1]}
    if recipe.form == "mlp":
        options["hidden"] = recipe.hidden
    with seeded(seed):
        ranker = RANKERS.build(recipe.form, options, n_tokens=relevance.n_tokens, n_labels=len(relevance.codes))
    if vectors is not None:
        start_from(ranker, torch.from_numpy(vectors))
    return ranker


def finished(curve: Sequence[float], *, epochs: int, patience: int) -> bool:
    """Whether all epochs are done, or the last `patience` ones brought next to nothing."""
    before, last = curve[:-patience], curve[-patience:]
    return len(curve) >= epochs or (bool(before) and max(last) < max(before) + LEAST_GAIN)


@torch.no_grad()
def ranking_quality(
    ranker: Ranker, relevance: Relevance, grade: Grade, *, labels_at_once: int = 64
) -> NDArray[np.float64]:
    """nDCG of each label over the whole vocabulary, a column for each of `CUTOFFS`."""
    tokens = torch.arange(relevance.n_tokens, device=ranker.token_vectors.device)
    ndcg = np.empty((len(relevance.codes), len(CUTOFFS)))
    for first in range(0, len(ndcg), labels_at_once):
        rows = slice(first, first + labels_at_once)
        labels = torch.arange(len(ndcg), device=tokens.device)[rows]
        scores = ranker.scores(tokens, labels).cpu().numpy()
        worth, listed = gains(relevance.scores[rows], grade), np.array(relevance.tokens[rows])
        for column, k in enumerate(CUTOFFS):
            ndcg[rows, column] = ndcg_at(scores, listed, worth, k=k)
    return ndcg


@dataclass(frozen=True)
class RankerTask:
    """The order of the tokens in the list of each label."""

    model: Ranker
    relevance: Relevance
    recipe: Rank
    seed: int

    @cached_property
    def rows(self) -> LazyRows | None:
        """The rows of the labels, where there are so many that moving all of them at every step would cost most."""
        if not moves_rows_lazily(len(self.relevance.codes), self.recipe, self.tokens.device):
            return None
        tables = {name: getattr(self.model, name) for name in self.model.by_label}
        return LazyRows(tables, self.recipe.learning_rate, BETAS, self.recipe.weight_decay)

    @cached_property
    def optimizer(self) -> Optimizer:
        recipe, lazy = self.recipe, self.model.by_label if self.rows else ()
        dense = [parameter for name, parameter in self.model.named_parameters() if name not in lazy]
        optimizer = torch.optim.AdamW(dense, lr=recipe.learning_rate, betas=BETAS, weight_decay=recipe.weight_decay)
        if self.rows is not None:
            rows = self.rows
            optimizer.register_step_post_hook(lambda *_: rows.update())
        return optimizer

    @cached_property
    def tokens(self) -> Tensor:
        return torch.arange(self.relevance.n_tokens, device=self.model.token_vectors.device)

    def batches(self, epoch: int) -> Sequence[NDArray[np.int64]]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.relevance.codes))
        size = self.recipe.labels_per_batch
        return [order[first : first + size] for first in range(0, len(order), size)]

    def training_step(self, labels: NDArray[np.int64]) -> float:
        """The gradients come from the kernel; what adds up over an epoch is nDCG@k."""
        scores = self._scores(labels)
        lambdas = lambdarank(
            scores.detach().cpu().numpy(),  # gradients are made by the kernel, not by torch
            self.relevance.tokens[labels],
            gains(self.relevance.scores[labels], self.recipe.grade),
            k=self.recipe.k,
            sigma=self.recipe.sigma,
            threads=torch.get_num_threads(),
        )
        scores.backward(torch.from_numpy(lambdas.gradients).to(scores.device))
        return float(lambdas.ndcg.sum())

    def _scores(self, labels: NDArray[np.int64]) -> Tensor:
        if self.rows is not None:
            return self.model.scores_of(self.tokens, *self.rows.lend(labels))
        return self.model.scores(self.tokens, torch.from_numpy(labels).to(self.tokens.device))

    def validate(self, state: State[RankerEpoch]) -> RankerEpoch:
        if self.rows is not None:
            self.rows.settle()
        ndcg = state.loss_sum / max(1, len(self.relevance.codes))
        return RankerEpoch(state.epoch + 1, ndcg, round(state.seconds, 3))

    def progress(self, state: State[RankerEpoch]) -> tuple[str, int, int]:
        return "rank", state.epoch * state.steps + state.step, self.recipe.epochs * state.steps

    def state_dicts(self) -> StateDicts:
        rows = {} if self.rows is None else {"rows": self.rows.state_dict()}
        return {"model": self.model.state_dict(), **rows}

    def load_state_dicts(self, saved: StateDicts) -> None:
        self.model.load_state_dict(dict(saved["model"]))
        if self.rows is not None:
            self.rows.load_state_dict(saved["rows"])


def moves_rows_lazily(n_labels: int, recipe: Rank, device: torch.device) -> bool:
    """Whether an epoch has so many steps that a row's last gradient is forgotten before it is touched again.

    Then a dense optimizer would go over all labels for each few of them; only a GPU does that as if it were nothing.
    """
    return compiled_for(device) and n_labels > MOST * recipe.labels_per_batch


def _fingerprint(ranker: Ranker, relevance: Relevance, recipe: Rank, seed: int) -> str:
    """A digest of all that the trained weights depend on, the starting weights among it."""
    lazy = moves_rows_lazily(len(relevance.codes), recipe, ranker.token_vectors.device)
    about = [asdict(recipe), seed, relevance.codes, *["lazy rows"] * lazy]
    digest = hashlib.sha256(json.dumps(about).encode())
    starting = [tensor.cpu().numpy() for tensor in ranker.state_dict().values()]
    for array in (relevance.tokens, relevance.scores, *starting):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
