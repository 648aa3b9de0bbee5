"""Language models on disk, with their words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plant.errors import ArtifactError
from plant.nn.language.awd_lstm import AWDLSTM, LanguageModel
from plant.store.artifact import Artifact, Manifest, open_artifact, save_artifact
from plant.store.checks import check_count, check_finite, well_formed
from plant.text.vocab import Vocab

KIND = "language-model"


def save_language_model(
    model: LanguageModel,
    path: Path | str,
    *,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write a language model; `facts` say what it was trained on and how well it foresees words."""
    tensors = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    network = model.network
    sizes = {"embedding": network.size, "hidden": network.sizes[0], "layers": len(network.sizes)}
    own = {"direction": model.direction, "words": len(model.vocab), **sizes}
    files = {"vocab.txt": "\n".join(model.vocab.tokens) + "\n"}
    return save_artifact(
        path, KIND, tensors=tensors, files=files, recipe=recipe, inputs=inputs, facts={**own, **(facts or {})}
    )


def load_language_model(path: Path | str) -> LanguageModel:
    """Read what `save_language_model` wrote, for inference, or as a start for training."""
    artifact = open_artifact(path, KIND)
    with well_formed(path):
        return language_model_from(artifact)


def language_model_from(artifact: Artifact) -> LanguageModel:
    """The model of an opened artifact."""
    facts = artifact.manifest.facts
    vocab = Vocab(tuple(artifact.text("vocab.txt").splitlines()))
    sizes: dict[str, Any] = {name: check_count(name, facts[name]) for name in ("embedding", "hidden", "layers")}
    _check_sizes(artifact.tensors, len(vocab), **sizes)
    check_finite(artifact.tensors)
    model = LanguageModel(vocab, AWDLSTM(len(vocab), **sizes), direction=facts["direction"])
    model.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in artifact.tensors.items()})
    return model.eval()


def _check_sizes(tensors: Mapping[str, Any], words: int, *, embedding: int, hidden: int, layers: int) -> None:
    """Refuse sizes that are not those of the tensors, before a network of such sizes is made room for."""
    layer = "network.layers.{}.recurrent_weight"
    own = sum(name.endswith(".recurrent_weight") for name in tensors)
    inner = {tensors[layer.format(number)].shape[1] for number in range(own - 1)}
    if own != layers or not inner <= {hidden} or tensors["network.words"].shape != (words, embedding):
        raise ArtifactError("the sizes of the folder are not those of its tensors: make it again")
