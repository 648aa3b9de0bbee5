"""Language models on disk, with their words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plant.nn.language.awd_lstm import AWDLSTM, LanguageModel
from plant.store.artifact import Artifact, Manifest, open_artifact, save_artifact
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
    return language_model_from(open_artifact(path, KIND))


def language_model_from(artifact: Artifact) -> LanguageModel:
    """The model of an opened artifact."""
    facts = artifact.manifest.facts
    vocab = Vocab(tuple(artifact.text("vocab.txt").splitlines()))
    sizes = {name: facts[name] for name in ("embedding", "hidden", "layers")}
    model = LanguageModel(vocab, AWDLSTM(len(vocab), **sizes), direction=facts["direction"])
    model.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in artifact.tensors.items()})
    return model.eval()
