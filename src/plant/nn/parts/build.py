"""From a recipe and what was learned before it to a classifier."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plant.codes.codebook import CodeBook
from plant.data.batches import collate
from plant.data.encode import encode_texts
from plant.data.subwords import with_subwords
from plant.nn.classifier import Classifier
from plant.nn.decoders.interaction import Interaction
from plant.nn.decoders.joined import Join, Joined
from plant.nn.language.transformer import Transformer
from plant.nn.matching.names import Names
from plant.nn.parts.protocols import Decoder, Encoder, Relevance, SubwordEncoder
from plant.nn.parts.table import DECODERS, ENCODERS, LOSSES
from plant.nn.planting.ranker import Ranker
from plant.recipe.schema import PARTS, Part, Prepare, Recipe
from plant.registry import Registry
from plant.tensors import Batch
from plant.text.tokenizer import tokenize
from plant.text.vocab import PADDING, Vocab

MATCHING = "interaction"  # the decoder, and the option of any other decoder that joins it


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
    names: Names | None = None
    transformer: Transformer | None = None


def build_classifier(recipe: Recipe, given: Given) -> Classifier:
    """The classifier of a recipe, with starting weights from torch's random state and from what is given."""
    check_parts(recipe)
    trained, asked = _trained(given), asked_for(recipe)
    offered = _offered(trained, asked)
    encoder = ENCODERS.build(recipe.encoder.name, _shape(recipe) | dict(recipe.encoder.options), **offered)
    offered |= {"input_size": encoder.size, "encoder": encoder}
    if "titles" in asked:
        offered |= {"titles": title_batch(trained.vocab, trained.codes, trained.codebook, encoder)}
    decoder = _decoder(recipe.decoder, offered, _offered(given, asked))
    criterion = LOSSES.build(recipe.loss.name, recipe.loss.options, **offered)
    n_words = None if given.names is None else given.names.n_words
    fit = recipe.fit
    return Classifier(
        encoder, decoder, criterion, segment=fit.segment, detach=fit.detach, recompute=fit.recompute, n_words=n_words
    )


def _decoder(part: Part, offered: Mapping[str, Any], everything: Mapping[str, Any]) -> Decoder:
    """The decoder; with an option table `interaction`, joined with interaction matching of that table's options.

    Matching knows `everything`, the codes and words too that were added to a fitted coder.
    """
    if part.name == MATCHING:
        return DECODERS.build(part.name, part.options, **everything)
    options = {key: value for key, value in part.options.items() if key != MATCHING}
    base = DECODERS.build(part.name, options, **offered)
    if MATCHING not in part.options:
        return base
    matching = dict(part.options[MATCHING])
    join = matching.pop("join", "max")
    interaction = DECODERS.build(MATCHING, matching, **everything)
    assert isinstance(interaction, Interaction)
    return Joined(base, interaction, n_labels=offered["n_labels"], n_words=offered["vocab_size"], join=join)


def _trained(given: Given) -> Given:
    """What there was in training, without the codes and words that were added to a fitted coder."""
    if given.names is None:
        return given
    n_labels, n_words = given.names.n_labels, given.names.n_words
    vocab = given.vocab if n_words == len(given.vocab) else Vocab(given.vocab.tokens[:n_words])
    return replace(given, vocab=vocab, codes=given.codes[:n_labels], frequencies=given.frequencies[:n_labels])


def _shape(recipe: Recipe) -> dict[str, Any]:
    """A language model's encoder has its shape, also when it is built again without the model."""
    if recipe.encoder.name != "awd-lstm":
        return {}
    return {name: getattr(recipe.pretrain, name) for name in ("embedding", "hidden", "layers", "direction")}


def check_parts(recipe: Recipe) -> None:
    """An error for a part that is not known, or an option of one that is not or has a wrong value."""
    for table, part in _parts(recipe):
        table.check(part.name, part.options, also=_joinable(table, part.name))
    if MATCHING in recipe.decoder.options:
        DECODERS.check(MATCHING, recipe.decoder.options[MATCHING], at=f"decoder.{MATCHING}", also={"join": Join})


def takes(recipe: Recipe, change: str) -> bool:
    """Whether a recipe has what an `a.b=value` change is for; only the options of parts can be missing."""
    section, _, option = change.partition("=")[0].strip().partition(".")
    if section not in PARTS:
        return True
    if recipe.system != "classifier":
        return False
    table, part = next((table, part) for table, part in _parts(recipe) if table.kind == section)
    known = {"", "name", *table.kinds(part.name), *_joinable(table, part.name)}
    return option.partition(".")[0] in known


def _parts(recipe: Recipe) -> tuple[tuple[Registry[Any], Part], ...]:
    return (ENCODERS, recipe.encoder), (DECODERS, recipe.decoder), (LOSSES, recipe.loss)


def _joinable(table: Registry[Any], name: str) -> dict[str, Any]:
    """The option of every other decoder that joins it with matching."""
    return {MATCHING: Mapping} if table is DECODERS and name != MATCHING else {}


def asked_for(recipe: Recipe) -> frozenset[str]:
    """What the parts of a recipe take, by name: `relevance`, `language_model`, ...; an error for an unknown part."""
    asked: set[str] = set()
    for table, part in _parts(recipe):
        table.options(part.name)
        asked |= set(inspect.signature(table.builders[part.name]).parameters)
    if MATCHING in recipe.decoder.options:
        asked |= set(inspect.signature(DECODERS.builders[MATCHING]).parameters)
    switches: Mapping[str, Any] = recipe.decoder.options
    if switches.get("planted") is False:
        asked.discard("ranker")
        if switches.get("static") is False:
            asked.discard("relevance")
    return frozenset(asked)


def _offered(given: Given, asked: frozenset[str]) -> dict[str, Any]:
    """All that is given, and what takes long to make, the titles' words, where it is asked for."""
    made = {}
    if "descriptions" in asked:
        made["descriptions"] = description_tokens(given.vocab, given.codes, given.codebook)
    return made | {
        "vocab": given.vocab,
        "names": given.names,
        "vocab_size": len(given.vocab),
        "n_labels": len(given.codes),
        "codebook": given.codebook,
        "frequencies": torch.from_numpy(given.frequencies),
        "relevance": given.relevance,
        "ranker": given.ranker,
        "language_model": given.language_model,
        "transformer": given.transformer,
        "word_vectors": None if given.word_vectors is None else torch.from_numpy(given.word_vectors),
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


def title_batch(vocab: Vocab, codes: tuple[str, ...], codebook: CodeBook, encoder: Encoder) -> Batch:
    """The title of each code as an encoder reads it; a code without one is its own title."""
    titles = [codebook.description(code) or code for code in codes]
    documents = encode_texts(titles, vocab, Prepare(keep_numbers=True))
    if isinstance(encoder, SubwordEncoder) and encoder.tokenizer is not None:
        documents = with_subwords(documents, encoder.tokenizer)
    return collate(documents, range(len(codes)))


def parent_numbers(codes: tuple[str, ...], codebook: CodeBook) -> Tensor:
    """The number of each label's first-level parent; a code without one is its own. JointLAAT: the category."""
    parents = [codebook.parents.get(code, "") or code for code in codes]
    numbers = {parent: number for number, parent in enumerate(dict.fromkeys(parents))}
    return torch.tensor([numbers[parent] for parent in parents])
