"""rank: from relevance to a model that scores every token for every label."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plant.nn.language.awd_lstm import LanguageModel, with_vocab
from plant.nn.planting.ranker_store import RANKER, TrainedRanker
from plant.recipe.schema import Rank, Recipe
from plant.relevance.relevance import Relevance
from plant.relevance.store import Named
from plant.steps.step import Step, Work
from plant.text.vocab import Vocab
from plant.train.loop import Runtime
from plant.train.ranker import SECONDS_BETWEEN_CHECKPOINTS, build_ranker, curve_of, ranking_quality, train_ranker
from plant.types import Progress, silent


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
    ranker = build_ranker(relevance, recipe, seed=seed, vectors=vectors)
    runtime = Runtime[object](checkpoint, device, progress=progress)
    history = train_ranker(ranker, relevance, recipe, seed=seed, runtime=runtime, checkpoint_seconds=checkpoint_seconds)
    return TrainedRanker(ranker, recipe.form, curve_of(history), ranking_quality(ranker, relevance, recipe.grade))


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
