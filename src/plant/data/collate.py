"""Documents as padded tensors; apart from `batches`, so that systems without a network do without torch."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from plant.data.corpus import Documents, FlatSubwords
from plant.tensors import Batch, Structure, Subwords
from plant.text.vocab import PADDING


def collate(documents: Documents, rows: Sequence[int] | NDArray[np.intp], *, n_labels: int | None = None) -> Batch:
    """A batch of some documents, padded to the longest; with targets where the number of labels is given."""
    numbers = [documents.tokens_of(int(row)) for row in rows]
    longest = max((len(row) for row in numbers), default=0)
    tokens = np.full((len(numbers), max(1, longest)), PADDING, np.int64)
    mask = np.zeros(tokens.shape, np.bool_)
    for place, row in enumerate(numbers):
        tokens[place, : len(row)] = row
        mask[place, : len(row)] = True
    targets = None if n_labels is None else torch.from_numpy(_targets(documents, rows, n_labels))
    subwords = None if documents.subwords is None else _subwords(documents.subwords, rows)
    structure = None if documents.structure is None else _structure(documents, rows, mask.shape)
    return Batch(torch.from_numpy(tokens), torch.from_numpy(mask), targets, subwords, structure=structure)


def _structure(documents: Documents, rows: Sequence[int] | NDArray[np.intp], shape: tuple[int, ...]) -> Structure:
    flat = documents.structure
    assert flat is not None
    headings, sentences = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for place, row in enumerate(rows):
        own = slice(documents.token_starts[row], documents.token_starts[row + 1])
        headings[place, : own.stop - own.start] = flat.headings[own]
        sentences[place, : own.stop - own.start] = flat.sentences[own]
    return Structure(torch.from_numpy(headings), torch.from_numpy(sentences))


def _subwords(flat: FlatSubwords, rows: Sequence[int] | NDArray[np.intp]) -> Subwords:
    places = [slice(int(flat.starts[row]), int(flat.starts[row + 1])) for row in rows]
    longest = max((place.stop - place.start for place in places), default=0)
    numbers, words = (np.full((len(places), longest), filler, np.int64) for filler in (0, -1))
    for row, place in enumerate(places):
        numbers[row, : place.stop - place.start] = flat.numbers[place]
        words[row, : place.stop - place.start] = flat.words[place]
    return Subwords(torch.from_numpy(numbers), torch.from_numpy(words))


def _targets(documents: Documents, rows: Sequence[int] | NDArray[np.intp], n_labels: int) -> NDArray[np.float32]:
    targets = np.zeros((len(rows), n_labels), np.float32)
    for place, row in enumerate(rows):
        targets[place, documents.labels_of(int(row))] = 1
    return targets
