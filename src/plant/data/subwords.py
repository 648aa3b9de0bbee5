"""Documents with the sub-words of their texts, each of which belongs to a word."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, FlatSubwords
from plant.errors import InputError
from plant.store.ragged import offsets
from plant.text.subwords import CutText, SubwordTokenizer

TEXTS_AT_A_TIME = 256


def with_subwords(documents: Documents, tokenizer: SubwordTokenizer) -> Documents:
    """The documents with their texts cut into sub-words.

    A sub-word belongs to the last word that begins before it ends, so numbers and punctuation go with the word before
    them; what follows the last word, which may have been cut by a limit on length, is left out.
    """
    if len(documents.tokens) and not len(documents.text):
        raise InputError("a transformer reads the texts, which this corpus was prepared without: set keep_text = true")
    numbers, words, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int32)], []
    for row, cut in enumerate(_cuts(documents, tokenizer)):
        place = slice(documents.token_starts[row], documents.token_starts[row + 1])
        kept, owners = _owners(cut, documents.char_starts[place], documents.char_ends[place])
        numbers.append(cut.numbers[kept])
        words.append(owners)
        lengths.append(len(owners))
    return replace(documents, subwords=FlatSubwords(np.concatenate(numbers), np.concatenate(words), offsets(lengths)))


def _cuts(documents: Documents, tokenizer: SubwordTokenizer) -> Iterator[CutText]:
    for first in range(0, len(documents), TEXTS_AT_A_TIME):
        rows = range(first, min(first + TEXTS_AT_A_TIME, len(documents)))
        yield from tokenizer.cut([documents.text_of(row) for row in rows])


def _owners(
    cut: CutText, starts: NDArray[np.int32], ends: NDArray[np.int32]
) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """Which sub-words stand up to the end of the last word, and the word of each of those."""
    if not len(starts):
        return np.zeros(len(cut.numbers), np.bool_), np.empty(0, np.int32)
    kept = cut.starts < ends[-1]
    owners = np.searchsorted(starts, cut.ends[kept] - 1, side="right") - 1
    return kept, np.maximum(owners, 0).astype(np.int32)
