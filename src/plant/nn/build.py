"""From a recipe and what was learned before it to a classifier."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plant.codes.codebook import CodeBook
from plant.nn.classifier import Classifier
from plant.nn.parts import Relevance
from plant.nn.ranker import Ranker
from plant.nn.table import DECODERS, ENCODERS, LOSSES
from plant.recipe import Recipe
from plant.text.tokenizer import tokenize
from plant.text.vocab import PADDING, Vocab


@dataclass(frozen=True)
class Given:
    """What parts may ask for by name: the fitted vocabulary and codes, and what earlier stages made."""

    vocab: Vocab
    codes: tuple[str, ...]
    codebook: CodeBook
    frequencies: NDArray[np.float32]  # the share of fitted notes that have each label
    relevance: Relevance | None = None
    ranker: Ranker | None = None
    language_model: Any = None
    word_vectors: NDArray[np.float32] | None = None


def build_classifier(recipe: Recipe, given: Given) -> Classifier:
    """The classifier of a recipe, with starting weights from torch's random state and from what is given."""
    offered = _offered(given)
    encoder = ENCODERS.build(recipe.encoder.name, recipe.encoder.options, **offered)
    offered |= {"input_size": encoder.size}
    decoder = DECODERS.build(recipe.decoder.name, recipe.decoder.options, **offered)
    criterion = LOSSES.build(recipe.loss.name, recipe.loss.options, **offered)
    return Classifier(encoder, decoder, criterion, segment=recipe.fit.segment, detach=recipe.fit.detach)


def asked_for(recipe: Recipe) -> frozenset[str]:
    """What the parts of a recipe take, by name: `relevance`, `language_model`, ...; an error for an unknown part."""
    tables = ((ENCODERS, recipe.encoder), (DECODERS, recipe.decoder), (LOSSES, recipe.loss))
    asked: set[str] = set()
    for table, part in tables:
        table.options(part.name)
        asked |= set(inspect.signature(table.builders[part.name]).parameters)
    switches: Mapping[str, Any] = recipe.decoder.options
    if switches.get("planted") is False:
        asked.discard("ranker")
        if switches.get("static") is False:
            asked.discard("relevance")
    return frozenset(asked)


def _offered(given: Given) -> dict[str, Any]:
    return {
        "vocab_size": len(given.vocab),
        "n_labels": len(given.codes),
        "codebook": given.codebook,
        "frequencies": torch.from_numpy(given.frequencies),
        "relevance": given.relevance,
        "ranker": given.ranker,
        "language_model": given.language_model,
        "word_vectors": None if given.word_vectors is None else torch.from_numpy(given.word_vectors),
        "descriptions": description_tokens(given.vocab, given.codes, given.codebook),
        "parents": parent_numbers(given.codes, given.codebook),
    }


def description_tokens(vocab: Vocab, codes: tuple[str, ...], codebook: CodeBook) -> Tensor:
    """The token numbers of each code's title, padded."""
    rows = [vocab.encode(tokenize(codebook.description(code)).forms) for code in codes]
    width = max((len(row) for row in rows), default=0)
    numbers = np.full((len(rows), max(1, width)), PADDING, np.int64)
    for place, row in enumerate(rows):
        numbers[place, : len(row)] = row
    return torch.from_numpy(numbers)


def parent_numbers(codes: tuple[str, ...], codebook: CodeBook) -> Tensor:
    """The number of each label's first-level parent; a code without one is its own. JointLAAT: the category."""
    parents = [codebook.parents.get(code, "") or code for code in codes]
    numbers = {parent: number for number, parent in enumerate(dict.fromkeys(parents))}
    return torch.tensor([numbers[parent] for parent in parents])
