"""Codes that no note taught: added by their names to a fitted coder that matches names."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from plant.codes.codebook import CodeBook
from plant.codes.synonyms import spoken, with_synonyms
from plant.errors import InputError
from plant.nn.build import Given, build_classifier
from plant.nn.names import Names, with_names
from plant.recipe import Recipe
from plant.stages.fitted import FittedCoder
from plant.stages.models import AveragedModel, ClassifierModel, Model
from plant.stages.naming import RIGHT, WRONG, book_mentions
from plant.text.tokenizer import tokenize
from plant.text.vocab import Vocab

UNSEEN = 0.5  # notes that a code without any is taken to have, for its prior


def add_codes(fitted: FittedCoder, book: CodeBook) -> FittedCoder:
    """The coder with the book's further codes at the end; the scores of the codes it knew stay as they were."""
    new = tuple(code for code in book.codes if code not in set(fitted.codes) and book.names(code))
    if not new:
        raise InputError("the table names no code that is new to this coder: nothing to add")
    members, codes, merged = _members(fitted), fitted.codes + new, _merged(fitted.codebook, book, new)
    by_name = all(model.given.names is not None for _, model in members)
    vocab = _vocab_with(fitted.vocab, book, new) if by_name else fitted.vocab
    grown = [_grown(*member, codes=codes, vocab=vocab, book=merged, fitted=fitted) for member in members]
    further = len(new)
    return replace(
        fitted,
        vocab=vocab,
        codes=codes,
        codebook=merged,
        model=grown[0] if len(grown) == 1 else AveragedModel(tuple(grown)),
        thresholds=np.concatenate([fitted.thresholds, np.full(further, np.median(fitted.thresholds), np.float32)]),
        train_counts=np.concatenate([fitted.train_counts, np.zeros(further, np.int64)]),
        facts={**fitted.facts, "codes_added": fitted.facts.get("codes_added", 0) + further},
    )


def _members(fitted: FittedCoder) -> list[tuple[Recipe, ClassifierModel]]:
    """The members, all of which match names or read descriptions."""
    models: tuple[Model, ...] = fitted.model.members if isinstance(fitted.model, AveragedModel) else (fitted.model,)
    members = []
    for recipe, model in zip(fitted.members, models, strict=True):
        if not isinstance(model, ClassifierModel) or not (
            model.given.names or getattr(model.classifier.decoder, "reads_titles", False)
        ):
            raise InputError(
                "this coder does not match names, so it cannot learn a code from its name alone: fit one with a recipe "
                "such as 'interaction' or 'label-descriptions', or with decoder.interaction={} set"
            )
        members.append((recipe, model))
    return members


def _grown(
    recipe: Recipe,
    model: ClassifierModel,
    *,
    codes: tuple[str, ...],
    vocab: Vocab,
    book: CodeBook,
    fitted: FittedCoder,
) -> ClassifierModel:
    """The member with more labels; what it learned stands at the beginning of every tensor that grew."""
    names, further = model.given.names, len(codes) - len(fitted.codes)
    rare = np.full(further, UNSEEN / max(1, fitted.train_documents), np.float32)
    given: Given = replace(
        model.given,
        vocab=vocab,
        codes=codes,
        codebook=book,
        frequencies=np.concatenate([model.given.frequencies, rare]),
        names=names and with_names(names, _further_names(names, book, codes, vocab, first=len(fitted.codes))),
    )
    given = replace(given, ranker=getattr(model.classifier.decoder, "ranker", None))
    classifier = build_classifier(recipe, given)
    classifier.load_state_dict(_lengthened(model.classifier.state_dict(), classifier.state_dict()))
    return ClassifierModel(classifier.eval(), given, model.device)


def _lengthened(old: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor if tensor.shape == fresh[name].shape else torch.cat([tensor, fresh[name][len(tensor) :]])
        for name, tensor in old.items()
    }


def _further_names(names: Names, book: CodeBook, codes: tuple[str, ...], vocab: Vocab, *, first: int) -> Names:
    mentions = list(dict.fromkeys(book_mentions(book, codes[first:], vocab)))
    lengths = [len(words) for words, _ in mentions]
    return replace(
        names,
        words=np.array([word for words, _ in mentions for word in words], np.int32),
        starts=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        labels=np.array([first + label for _, label in mentions], np.int32),
        support=np.zeros(len(mentions), np.int32),
        log_odds=np.full(len(mentions), np.log(RIGHT / WRONG), np.float32),
    )


def _vocab_with(vocab: Vocab, book: CodeBook, codes: tuple[str, ...]) -> Vocab:
    """The vocabulary with the words of new names at its end."""
    names = (form for code in codes for name in book.names(code) for form in spoken(name))
    words = dict.fromkeys(word for name in names for word in tokenize(name).forms)
    return Vocab((*vocab.tokens, *(word for word in words if word not in vocab.numbers)))


def _merged(book: CodeBook, further: CodeBook, codes: tuple[str, ...]) -> CodeBook:
    """The old book with the new codes of another, their titles, synonyms and parents."""
    chosen = set(codes)
    return replace(
        with_synonyms(book, replace(further, codes=codes)).with_codes(codes),
        descriptions={**{c: d for c, d in further.descriptions.items() if c in chosen}, **book.descriptions},
        parents={**{c: p for c, p in further.parents.items() if c in chosen}, **book.parents},
    )
