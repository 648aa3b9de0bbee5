"""Trained rankers on disk, with the words and codes that their numbers stand for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plant.nn.planting.ranker import RANKERS, Ranker
from plant.relevance.store import CODES, VOCAB, Named
from plant.store.artifact import Manifest, open_artifact, save_artifact
from plant.store.checks import check_finite, check_length, check_shape, well_formed
from plant.store.keeper import Kind

KIND = "ranker"
CUTOFFS = (5, 15, 100)
_WEIGHTS = "weights."


@dataclass(frozen=True)
class TrainedRanker:
    """A ranker and how well it ranks: the nDCG@k that each epoch went through, and each label's in the end."""

    ranker: Ranker
    form: str
    curve: tuple[float, ...]
    ndcg: NDArray[np.float64]  # [label, cutoff], over the whole vocabulary

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(tensor.size for tensor in self._weights().values())

    def _weights(self) -> dict[str, NDArray[np.float32]]:
        return {name: tensor.cpu().numpy() for name, tensor in self.ranker.state_dict().items()}


def save_ranker(
    named: Named[TrainedRanker],
    path: Path | str,
    *,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Manifest:
    """Write a ranker with the names of its tokens and labels."""
    trained = named.thing
    weights = trained._weights()
    tensors = {_WEIGHTS + name: weight for name, weight in weights.items()} | {"ndcg": trained.ndcg}
    facts = {
        "form": trained.form,
        "parameters": trained.parameters,
        "curve": list(trained.curve),
        **{f"ndcg@{k}": float(values.mean()) for k, values in zip(CUTOFFS, trained.ndcg.T, strict=True) if len(values)},
    }
    return save_artifact(path, KIND, tensors=tensors, files=named.files, recipe=recipe, inputs=inputs, facts=facts)


def load_ranker(path: Path | str) -> Named[TrainedRanker]:
    """Read what `save_ranker` wrote; sizes are those of the tensors."""
    artifact = open_artifact(path, KIND)
    with well_formed(path):
        check_finite(artifact.tensors)
        facts = artifact.manifest.facts
        weights = {
            name.removeprefix(_WEIGHTS): torch.from_numpy(np.array(array))
            for name, array in artifact.tensors.items()
            if name.startswith(_WEIGHTS)
        }
        ranker, curve = ranker_from(weights, facts["form"]), tuple(map(float, facts["curve"]))
        trained = TrainedRanker(ranker, facts["form"], curve, np.array(artifact.tensors["ndcg"]))
        named = Named(trained, {name: artifact.text(name) for name in (VOCAB, CODES)})
        check_shape("ndcg", trained.ndcg, (len(named.codebook.codes), len(CUTOFFS)))
        check_shape("label_vectors", artifact.tensors[f"{_WEIGHTS}label_vectors"], tuple(ranker.label_vectors.shape))
        check_length("label_vectors", ranker.label_vectors.detach().numpy(), len(named.codebook.codes))
        check_length("token_vectors", ranker.token_vectors.detach().numpy(), len(named.vocab))
    return named


RANKER = Kind(KIND, save_ranker, load_ranker)


def ranker_from(weights: Mapping[str, Tensor], form: str) -> Ranker:
    """A ranker of given weights; its sizes are theirs."""
    n_tokens, size = weights["token_vectors"].shape
    options = {"size": size} | ({"hidden": len(weights["output"])} if "output" in weights else {})
    ranker = RANKERS.build(form, options, n_tokens=n_tokens, n_labels=len(weights["label_vectors"]))
    ranker.load_state_dict(weights)
    return ranker
