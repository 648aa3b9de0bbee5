"""Word vectors of the fitted and the unlabelled text, for encoders that start from them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, TrainingView
from plant.recipe.schema import Vectors
from plant.relevance.store import VOCAB, Named
from plant.steps.step import Step, Work, always
from plant.store.artifact import Manifest, open_artifact, save_artifact
from plant.store.checks import check_finite, check_shape, well_formed
from plant.store.keeper import Kind
from plant.train.streams import text_of
from plant.train.word_vectors import train_word_vectors
from plant.types import Progress, silent

KIND = "word-vectors"
WORDS_TO_READ = 10_000_000


def vectors(
    view: TrainingView, recipe: Vectors, *, more: Sequence[Documents] = (), progress: Progress = silent
) -> NDArray[np.float32]:
    """One vector per word of the vocabulary."""
    text = text_of([view.documents, *more])
    options = {key: value for key, value in asdict(recipe).items() if key != "train"}
    options["epochs"] = recipe.epochs or epochs_for(len(text.tokens))
    return train_word_vectors(text, len(view.vocab), **options, progress=progress)


def epochs_for(n_words: int) -> int:
    """Five, or more where the text is small: in five readings of a few hundred notes all words stay alike."""
    return min(50, max(5, WORDS_TO_READ // max(1, n_words)))


def save_vectors(
    named: Named[NDArray[np.float32]], path: Path | str, *, recipe: Mapping[str, Any], inputs: Mapping[str, str]
) -> Manifest:
    """Write vectors with their words."""
    found = named.thing
    facts = {"words": len(found), "size": found.shape[1]}
    tensors = {"vectors": found}
    return save_artifact(path, KIND, tensors=tensors, files=named.files, recipe=recipe, inputs=inputs, facts=facts)


def load_vectors(path: Path | str) -> Named[NDArray[np.float32]]:
    """Read what `save_vectors` wrote."""
    artifact = open_artifact(path, KIND)
    with well_formed(path):
        check_finite(artifact.tensors)
        named = Named(np.array(artifact.tensors["vectors"]), {VOCAB: artifact.text(VOCAB)})
        check_shape("vectors", named.thing, (len(named.vocab), named.thing.shape[1]))
    return named


def _make(work: Work) -> Named[NDArray[np.float32]]:
    view: TrainingView = work["view"]
    found = vectors(view, work.section(Vectors), more=[work["unlabelled"]], progress=work.progress)
    return Named(found, {VOCAB: "\n".join(view.vocab.tokens) + "\n"})


VECTORS = Step(
    KIND, _make, always("view", "unlabelled"), sections=("vectors",), kind=Kind(KIND, save_vectors, load_vectors)
)
