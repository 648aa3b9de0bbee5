"""From a recipe and what was learned before it to a classifier."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plant.codes.codebook import CodeBook
from plant.codes.tree import code_tree
from plant.data.collate import collate
from plant.data.encode import encode_texts
from plant.data.subwords import with_subwords
from plant.errors import RecipeError
from plant.nn.classifier import Classifier
from plant.nn.language.terms import Terms, term_texts
from plant.nn.parts.given import Given as Given  # where others look for it
from plant.nn.parts.protocols import Decoder, Encoder, Loss, SubwordEncoder, asks, gives
from plant.nn.parts.shorthand import short_options, spelled_out
from plant.nn.parts.table import DECODERS, ENCODERS, LOSSES, TABLES
from plant.recipe.schema import PARTS, Part, Prepare, Recipe
from plant.registry import Registry
from plant.tensors import Batch
from plant.text.tokenizer import tokenize
from plant.text.vocab import PADDING, Vocab

MADE_OF = {"terms": "names"}  # what is asked for -> the step's thing that it is made of


def build_classifier(recipe: Recipe, given: Given) -> Classifier:
    """The classifier of a recipe, with starting weights from torch's random state and from what is given."""
    check_parts(recipe)
    trained, asked = _trained(given), asked_for(recipe)
    offered = _offered(trained, asked)
    encoder = ENCODERS.build(recipe.encoder.name, recipe.encoder.options, **offered)
    offered |= _of_encoder(encoder, trained, asked, known=trained.vocab)
    _check_states(encoder, recipe)
    part = spelled_out(recipe.decoder)
    added = {} if trained is given else _offered(given, asked) | _of_encoder(encoder, given, asked, known=trained.vocab)
    decoder = DECODERS.build(part.name, part.options, added=added, **offered)
    criterion = LOSSES.build(recipe.loss.name, recipe.loss.options, **offered)
    _check_extras(decoder, criterion, recipe)
    n_words = None if given.names is None else given.names.n_words
    fit = recipe.fit
    return Classifier(
        encoder, decoder, criterion, segment=fit.segment, detach=fit.detach, recompute=fit.recompute, n_words=n_words
    )


def check_parts(recipe: Recipe) -> None:
    """An error for a part that is not known, or an option of one that is not or has a wrong value."""
    for table, part in _parts(recipe):
        table.check(part.name, part.options)


def takes(recipe: Recipe, change: str) -> bool:
    """Whether a recipe has what an `a.b=value` change is for; only the options of parts can be missing."""
    section, _, option = change.partition("=")[0].strip().partition(".")
    if section not in PARTS:
        return True
    if recipe.system not in ("classifier", "label-tree") and (recipe.system, section) != ("kept", "encoder"):
        return False
    name = getattr(recipe, section).name
    known = {"", "name", *TABLES[section].kinds(name), *short_options(section, name)}
    return option.partition(".")[0] in known


def asked_for(recipe: Recipe) -> frozenset[str]:
    """What the parts of a recipe take, by name: `relevance`, `language_model`, ...; an error for an unknown part.

    Options that parts do not have are told, too: parts are built when hours of other steps are over.
    """
    for table, part in _parts(recipe):
        table.check(part.name, part.options)
    return _with_sources(*(table.needs(part.name, part.options) for table, part in _parts(recipe)))


def kept_whole(recipe: Recipe) -> frozenset[str]:
    """Of what the parts take, what a saved coder must keep; of the rest, where weights only start, a shape will do."""
    return _with_sources(*(table.keeps(part.name, part.options) for table, part in _parts(recipe)))


def _with_sources(*asked: frozenset[str]) -> frozenset[str]:
    """All that is asked for, and what it is made of where that takes a step of its own."""
    every = frozenset().union(*asked)
    return every | {source for name, source in MADE_OF.items() if name in every}


def decoders_of(recipe: Recipe) -> dict[str, Mapping[str, Any]]:
    """The options of the decoder and of those that it is made of, by name."""
    part = spelled_out(recipe.decoder)
    return {inner.name: inner.options for inner in DECODERS.walk(part.name, part.options)}


def _check_states(encoder: Encoder, recipe: Recipe) -> None:
    part = spelled_out(recipe.decoder)
    if not encoder.size and "input_size" in DECODERS.needs(part.name, part.options):
        raise RecipeError(
            f"decoder {recipe.decoder.name!r} looks at states, and encoder {recipe.encoder.name!r} has none: "
            f'take another, such as encoder.name = "{PARTS["encoder"]}"'
        )


def _check_extras(decoder: Decoder, criterion: Loss, recipe: Recipe) -> None:
    missing = asks(criterion) - gives(decoder)
    if missing:
        raise RecipeError(
            f"loss {recipe.loss.name!r} needs {', '.join(sorted(missing))} of the decoder, "
            f"which {recipe.decoder.name!r} does not give: take another loss or another decoder"
        )


def _parts(recipe: Recipe) -> tuple[tuple[Registry[Any], Part], ...]:
    return (ENCODERS, recipe.encoder), (DECODERS, spelled_out(recipe.decoder)), (LOSSES, recipe.loss)


def _trained(given: Given) -> Given:
    """What there was in training, without the codes and words that were added to a fitted coder."""
    if given.names is None:
        return given
    n_labels, n_words = given.names.n_labels, given.names.n_words
    vocab = given.vocab if n_words == len(given.vocab) else Vocab(given.vocab.tokens[:n_words])
    return replace(given, vocab=vocab, codes=given.codes[:n_labels], frequencies=given.frequencies[:n_labels])


def _of_encoder(encoder: Encoder, given: Given, asked: frozenset[str], *, known: Vocab) -> dict[str, Any]:
    """What the encoder gives to other parts: its width, itself, and titles and terms as it reads them.

    `known` are the words that the encoder knows, which may be fewer than those of added codes.
    """
    own: dict[str, Any] = {"input_size": encoder.size, "encoder": encoder}
    if "titles" in asked:
        own["titles"] = title_batch(known, given.codes, given.codebook, encoder)
    if "terms" in asked:
        own["terms"] = terms_of(given, encoder, known=known)
    return own


def _offered(given: Given, asked: frozenset[str]) -> dict[str, Any]:
    """All that is given, and what takes long to make, the titles' words, where it is asked for."""
    made: dict[str, Any] = {}
    if asked & {"tree", "tree_descriptions"}:
        tree = code_tree(given.codes, given.codebook)
        made |= {"tree": tree, "tree_descriptions": description_tokens(given.vocab, tree.nodes, given.codebook)}
    if "descriptions" in asked:
        made["descriptions"] = description_tokens(given.vocab, given.codes, given.codebook)
    return made | {
        **{field.name: getattr(given, field.name) for field in fields(given)},
        "vocab_size": len(given.vocab),
        "n_labels": len(given.codes),
        "frequencies": torch.from_numpy(given.frequencies),
        **{name: None if array is None else torch.from_numpy(array) for name, array in _arrays(given).items()},
        "parents": parent_numbers(given.codes, given.codebook),
    }


def _arrays(given: Given) -> dict[str, NDArray[Any] | None]:
    return {name: getattr(given, name) for name in ("word_vectors", "hyperbolic", "label_pairs")}


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
    return _read_texts(titles, vocab, encoder)


def terms_of(given: Given, encoder: Encoder, *, known: Vocab) -> Terms:
    """What each code is called as an encoder reads it: its title, then the names that it was given."""
    lists = term_texts(given.codes, given.codebook, given.names, given.vocab)
    places = {text: place for place, text in enumerate(dict.fromkeys(text for own in lists for text in own))}
    return Terms(_read_texts([*places], known, encoder), tuple(tuple(places[text] for text in own) for own in lists))


def _read_texts(texts: Sequence[str], vocab: Vocab, encoder: Encoder) -> Batch:
    documents = encode_texts(texts, vocab, Prepare(keep_numbers=True))
    if isinstance(encoder, SubwordEncoder) and encoder.tokenizer is not None:
        documents = with_subwords(documents, encoder.tokenizer)
    return collate(documents, range(len(texts)))


def parent_numbers(codes: tuple[str, ...], codebook: CodeBook) -> Tensor:
    """The number of each label's first-level parent; a code without one is its own. JointLAAT: the category."""
    parents = [codebook.parents.get(code, "") or code for code in codes]
    numbers = {parent: number for number, parent in enumerate(dict.fromkeys(parents))}
    return torch.tensor([numbers[parent] for parent in parents])
