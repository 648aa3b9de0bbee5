"""Codes that no note taught: added by their names to a fitted coder that matches names."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from plant.codes.codebook import CodeBook
from plant.codes.synonyms import spoken, with_synonyms
from plant.data.corpus import TrainingView
from plant.errors import InputError
from plant.evaluate.choosing.calibration import logits_of
from plant.nn.matching.names import Names, with_names
from plant.nn.matching.search import Matching
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.nn.parts.protocols import reads_titles
from plant.recipe.schema import Recipe
from plant.stages.fitted import FittedCoder
from plant.stages.models import AveragedModel, BlendedModel, ClassifierModel, Model, WidenedModel
from plant.stages.naming import (
    LENT,
    RIGHT,
    WRONG,
    Families,
    book_mentions,
    count_names,
    lent_names,
    matching_of,
)
from plant.text.tokenizer import tokenize
from plant.text.vocab import Vocab

UNSEEN = 0.5  # notes that a code without any is taken to have, for its prior
LENT_SUPPORT = -1  # in place of a count of notes: the name is borrowed


def add_codes(fitted: FittedCoder, book: CodeBook, view: TrainingView | None = None) -> FittedCoder:
    """The coder with the book's further codes at the end; the scores of the codes it knew stay as they were.

    Where the fitted notes are at hand, names that stand in them are believed the less: their codes were not given.
    """
    new = tuple(code for code in book.codes if code not in set(fitted.codes) and book.names(code))
    if not new:
        raise InputError("the table names no code that is new to this coder: nothing to add")
    codes, merged = fitted.codes + new, _merged(fitted.codebook, book, new)
    members = _members(fitted)
    by_name = any(model.given.names is not None for _, model in members if isinstance(model, ClassifierModel))
    vocab = _vocab_with(fitted.vocab, book, new) if by_name else fitted.vocab
    grown = tuple(
        _grown(recipe, model, codes=codes, vocab=vocab, book=merged, fitted=fitted, view=view)
        if _knows_names(model)
        else _widened(model, fitted, len(new))
        for recipe, model in members
    )
    further = len(new)
    return replace(
        fitted,
        vocab=vocab,
        codes=codes,
        codebook=merged,
        model=_together(fitted, grown, further),
        thresholds=np.concatenate([fitted.thresholds, np.full(further, np.median(fitted.thresholds), np.float32)]),
        train_counts=np.concatenate([fitted.train_counts, np.zeros(further, np.int64)]),
        facts={**fitted.facts, "codes_added": fitted.facts.get("codes_added", 0) + further},
    )


def _members(fitted: FittedCoder) -> list[tuple[Recipe, Model]]:
    """The members, at least one of which matches names or reads descriptions."""
    models = fitted.model.members if _has_members(fitted.model) else (fitted.model,)
    if not any(_knows_names(model) for model in models):
        raise InputError(
            "this coder does not match names, so it cannot learn a code from its name alone: fit one with a recipe "
            "such as 'interaction' or 'label-descriptions', or with decoder.interaction={} set"
        )
    return list(zip(fitted.members, models, strict=True))


def _together(fitted: FittedCoder, members: tuple[Model, ...], further: int) -> Model:
    """The coder's model with its members replaced."""
    if isinstance(fitted.model, BlendedModel):
        rare = np.full(further, logits_of(np.array([_share(fitted)])), np.float32)
        return replace(fitted.model, members=members, log_odds=np.concatenate([fitted.model.log_odds, rare]))
    return replace(fitted.model, members=members) if isinstance(fitted.model, AveragedModel) else members[0]


def _has_members(model: Model) -> TypeGuard[AveragedModel | BlendedModel]:
    return isinstance(model, AveragedModel | BlendedModel)


def _knows_names(model: Model) -> TypeGuard[ClassifierModel]:
    return isinstance(model, ClassifierModel) and bool(model.given.names or reads_titles(model.classifier.decoder))


def _widened(model: Model, fitted: FittedCoder, further: int) -> WidenedModel:
    """A member that does not know names; codes may be added more than once."""
    if isinstance(model, WidenedModel):
        return replace(model, further=model.further + further)
    return WidenedModel(model, len(fitted.vocab), len(fitted.codes), _share(fitted), further)


def _share(fitted: FittedCoder) -> float:
    """The share of notes that a code without any is taken to have."""
    return UNSEEN / max(1, fitted.train_documents)


def _grown(
    recipe: Recipe,
    model: ClassifierModel,
    *,
    codes: tuple[str, ...],
    vocab: Vocab,
    book: CodeBook,
    fitted: FittedCoder,
    view: TrainingView | None,
) -> ClassifierModel:
    """The member with more labels; what it learned stands at the beginning of every tensor that grew."""
    names, further = model.given.names, len(codes) - len(fitted.codes)
    rare = np.full(further, _share(fitted), np.float32)
    if names is not None:
        counts = np.concatenate([fitted.train_counts, np.zeros(further, np.int64)])
        families = Families.from_counts(codes, book.system, counts)
        new = _further_names(names, book, vocab, families, codes, first=len(fitted.codes), kin=recipe.naming.kin)
        names = with_names(names, _believed(new, names, families, vocab, matching_of(recipe), view))
    given: Given = replace(
        model.given,
        vocab=vocab,
        codes=codes,
        codebook=book,
        frequencies=np.concatenate([model.given.frequencies, rare]),
        names=names,
    )
    classifier = build_classifier(recipe, given)
    classifier.load_state_dict(_lengthened(model.classifier.state_dict(), classifier.state_dict()))
    return replace(model, classifier=classifier.eval(), given=given)


def _lengthened(old: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor if tensor.shape == fresh[name].shape else torch.cat([tensor, fresh[name][len(tensor) :]])
        for name, tensor in old.items()
    }


def _further_names(
    names: Names, book: CodeBook, vocab: Vocab, families: Families, codes: tuple[str, ...], *, first: int, kin: bool
) -> Names:
    """The names of the codes that are not trained: their own, then those that trained kin lends them."""
    own = dict.fromkeys((words, first + label) for words, label in book_mentions(book, codes[first:], vocab))
    trained = [
        (tuple(names.words[a:b].tolist()), label)
        for label, a, b in zip(names.labels.tolist(), names.starts, names.starts[1:], strict=False)
    ]
    lent = lent_names(dict.fromkeys([*trained, *own], frozenset()), families) if kin else {}
    mentions = [*own, *(mention for mention in lent if mention[1] >= first)]
    lengths = [len(words) for words, _ in mentions]
    return replace(
        names,
        words=np.array([word for words, _ in mentions for word in words], np.int32),
        starts=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        labels=np.array([label for _, label in mentions], np.int32),
        support=np.array([0] * len(own) + [LENT_SUPPORT] * (len(mentions) - len(own)), np.int32),
        log_odds=np.zeros(len(mentions), np.float32),
    )


def _believed(
    new: Names, names: Names, families: Families, vocab: Vocab, matching: Matching, view: TrainingView | None
) -> Names:
    """The names with log-odds, from the fitted notes where they are at hand."""
    found = np.zeros(len(new), np.int64)
    if view is not None:
        both = with_names(names, new)
        counted = count_names(both, [frozenset()] * len(both), replace(view, vocab=vocab), matching)
        found = counted.found[len(names) :]
    own = np.log(RIGHT / (found + WRONG))
    lent = np.log(LENT * families.share[new.labels] / (1 + WRONG * found))
    return replace(new, log_odds=np.where(new.support == LENT_SUPPORT, lent, own).astype(np.float32))


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
