"""Codes that no note taught: added by their names to a classifier that matches names or reads titles."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from plant.codes.codebook import CodeBook
from plant.data.corpus import TrainingView
from plant.nn.classifier import Classifier
from plant.nn.matching.names import Names, with_names
from plant.nn.matching.naming import LENT, RIGHT, WRONG, Families, book_mentions, count_names, lent_names, matching_of
from plant.nn.matching.search import Matching
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.recipe.schema import Recipe
from plant.store.ragged import offsets
from plant.systems.system import Growth
from plant.text.vocab import Vocab

LENT_SUPPORT = -1  # in place of a count of notes: the name is borrowed


def grown_classifier(recipe: Recipe, classifier: Classifier, given: Given, growth: Growth) -> tuple[Classifier, Given]:
    """The classifier with more labels; what it learned stands at the beginning of every tensor that grew."""
    known = growth.known
    given = replace(
        given,
        vocab=known.vocab,
        codes=known.codes,
        codebook=known.codebook,
        frequencies=np.concatenate([given.frequencies, np.full(growth.further, growth.share, np.float32)]),
        names=None if given.names is None else _grown_names(recipe, given.names, growth),
    )
    grown = build_classifier(recipe, given)
    grown.load_state_dict(_lengthened(classifier.state_dict(), grown.state_dict()))
    return grown.eval(), given


def _grown_names(recipe: Recipe, names: Names, growth: Growth) -> Names:
    """The names that were there, and behind them those of the new codes."""
    book, vocab, codes = growth.known.codebook, growth.known.vocab, growth.known.codes
    families = Families.from_counts(codes, book.system, growth.counts)
    new = _further_names(names, book, vocab, families, codes, first=growth.n_codes, kin=recipe.naming.kin)
    return with_names(names, _believed(new, names, families, vocab, matching_of(recipe), growth.view))


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
        starts=offsets(lengths),
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
