"""rank: from relevance to a model that scores every token for every label."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plant.errors import RecipeError
from plant.nn.language.awd_lstm import LanguageModel, with_vocab
from plant.nn.planting.lambdarank import lambdarank, ndcg_at
from plant.nn.planting.ranker import RANKERS, Ranker, start_from
from plant.nn.planting.ranker_store import CUTOFFS, RANKER, TrainedRanker
from plant.recipe.schema import Rank, Recipe
from plant.relevance.grades import Grade, gains
from plant.relevance.relevance import Relevance
from plant.relevance.store import Named
from plant.steps.step import Step, Work
from plant.text.vocab import Vocab
from plant.train.checkpoint import load_checkpoint, pack_optimizer, save_checkpoint, unpack_optimizer
from plant.train.seed import seeded
from plant.types import Progress, silent

LEAST_GAIN = 1e-4  # of nDCG@k: less is a plateau
SECONDS_BETWEEN_CHECKPOINTS = 20.0


def rank(
    relevance: Relevance,
    recipe: Rank,
    *,
    seed: int,
    vectors: NDArray[np.float32] | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = SECONDS_BETWEEN_CHECKPOINTS,
    device: str = "cpu",
    progress: Progress = silent,
) -> TrainedRanker:
    """Train until the plateau of nDCG@k; `vectors` are trained embeddings that the tokens start from.

    A run that is killed and called again with the same `checkpoint` file ends with the same weights.
    """
    ranker = build_ranker(relevance, recipe, seed=seed, vectors=vectors).to(device)
    optimizer = torch.optim.AdamW(
        ranker.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.99), weight_decay=recipe.weight_decay
    )
    request = _request(relevance, recipe, seed, vectors)
    curve = _resume(ranker, optimizer, request, checkpoint) if checkpoint else []
    saved = time.monotonic()
    while not finished(curve, epochs=recipe.epochs, patience=recipe.patience):
        curve.append(_epoch(ranker, optimizer, relevance, recipe, order=_order(relevance, seed, len(curve))))
        progress("rank", len(curve), recipe.epochs)
        if checkpoint and time.monotonic() - saved >= checkpoint_seconds:
            _save(ranker, optimizer, request, curve, checkpoint)
            saved = time.monotonic()
    return TrainedRanker(ranker, recipe.form, tuple(curve), ranking_quality(ranker, relevance, recipe.grade))


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


def _epoch(
    ranker: Ranker, optimizer: torch.optim.Optimizer, relevance: Relevance, recipe: Rank, *, order: NDArray[np.int64]
) -> float:
    """A step for each batch of labels; the mean of the nDCG@k that the steps started from."""
    tokens = torch.arange(relevance.n_tokens, device=ranker.token_vectors.device)
    total = 0.0
    for first in range(0, len(order), recipe.labels_per_batch):
        labels = order[first : first + recipe.labels_per_batch]
        scores = ranker.scores(tokens, torch.from_numpy(labels).to(tokens.device))
        lambdas = lambdarank(
            scores.detach().cpu().numpy(),  # gradients are made by the kernel, not by torch
            relevance.tokens[labels],
            gains(relevance.scores[labels], recipe.grade),
            k=recipe.k,
            sigma=recipe.sigma,
            threads=torch.get_num_threads(),
        )
        optimizer.zero_grad()
        scores.backward(torch.from_numpy(lambdas.gradients).to(scores.device))
        optimizer.step()
        total += float(lambdas.ndcg.sum())
    return total / max(1, len(order))


def _order(relevance: Relevance, seed: int, epoch: int) -> NDArray[np.int64]:
    """The labels of an epoch in random order, the same whenever the epoch is run."""
    return np.random.default_rng([seed, epoch]).permutation(len(relevance.codes))


def _request(relevance: Relevance, recipe: Rank, seed: int, vectors: NDArray[np.float32] | None) -> str:
    """A digest of all that the weights depend on: a checkpoint of anything else is not gone on from."""
    digest = hashlib.sha256(json.dumps([asdict(recipe), seed, relevance.codes]).encode())
    for array in (relevance.tokens, relevance.scores, *([] if vectors is None else [vectors])):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _save(ranker: Ranker, optimizer: torch.optim.Optimizer, request: str, curve: list[float], checkpoint: Path) -> None:
    tensors, groups = pack_optimizer(optimizer)
    state: Mapping[str, Any] = {"request": request, "curve": curve, "groups": groups}
    save_checkpoint(checkpoint, {**ranker.state_dict(), **tensors}, state)


def _resume(ranker: Ranker, optimizer: torch.optim.Optimizer, request: str, checkpoint: Path) -> list[float]:
    """Go back to where the checkpoint was taken, if it is one of this very training; the curve up to there."""
    found = load_checkpoint(checkpoint)
    if found is None or found.state["request"] != request:
        return []
    ranker.load_state_dict({name: found.tensors[name] for name in ranker.state_dict()})
    unpack_optimizer(optimizer, found.tensors, found.state["groups"])
    return list(found.state["curve"])


def _make(work: Work) -> Named[TrainedRanker]:
    relevance: Named[Relevance] = work["relevance"]
    pretrained = work.get("language-model")
    trained = rank(
        relevance.thing,
        work.section(Rank),
        seed=work.seed,
        vectors=None if pretrained is None else vectors_of(pretrained.model, relevance.vocab),
        checkpoint=work.checkpoint,
        device=work.settings.device,
        progress=work.progress,
    )
    return Named(trained, relevance.files)


def vectors_of(model: LanguageModel, vocab: Vocab) -> NDArray[np.float32]:
    """The model's embedding of each word; words that it does not know get the mean."""
    return with_vocab(model, vocab).network.words.detach().numpy()


def _needs(recipe: Recipe) -> tuple[str, ...]:
    return ("relevance", "language-model") if recipe.rank.vectors == "language-model" else ("relevance",)


RANK = Step("ranker", _make, _needs, sections=("rank", "seed"), kind=RANKER)
