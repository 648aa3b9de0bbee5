"""What human coders marked in the fitted notes: names of codes as notes have them."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from plant.data.corpus import Documents, TrainingView
from plant.text.vocab import UNKNOWN

Mention = tuple[tuple[int, ...], int]
"""Token numbers in reading order, and the label that they were marked for."""


def mined_mentions(view: TrainingView) -> Mapping[Mention, frozenset[int]]:
    """The documents in which each mention was marked; words outside the vocabulary cannot be found, nor matched."""
    marked: dict[Mention, set[int]] = defaultdict(set)
    for document in range(len(view.documents)):
        for mention in _mentions_of(view.documents, document):
            marked[mention].add(document)
    return {mention: frozenset(documents) for mention, documents in marked.items()}


def _mentions_of(documents: Documents, document: int) -> list[Mention]:
    place = slice(documents.token_starts[document], documents.token_starts[document + 1])
    rows = slice(documents.evidence_starts[document], documents.evidence_starts[document + 1])
    spans, labels = documents.evidence_spans[rows], documents.evidence_labels[rows]
    first = np.searchsorted(documents.char_ends[place], spans[:, 0], side="right")
    last = np.searchsorted(documents.char_starts[place], spans[:, 1], side="left")
    tokens = documents.tokens_of(document)
    mentions = [(tuple(tokens[a:b].tolist()), int(label)) for a, b, label in zip(first, last, labels, strict=True)]
    return [(words, label) for words, label in mentions if words and UNKNOWN not in words]
