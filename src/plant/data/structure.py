"""Documents with the structure of their texts: the heading that each word stands under, and its sentence."""

import re
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, FlatStructure
from plant.errors import InputError
from plant.text.language import language_of
from plant.text.sections import sections_of
from plant.text.tokenizer import tokenize

BORDER = re.compile(r"[.!?;]\s|\n")  # of sentences


def with_structure(documents: Documents, *, headings: int) -> Documents:
    """The documents with a heading, one of so many numbers, and a sentence for each word.

    Number 0 is for what stands under no heading; two headings may share a number. Sentences are numbered from 0.
    """
    if len(documents.tokens) and not len(documents.text):
        raise InputError("sections are found in texts, which this corpus was prepared without: set keep_text = true")
    found = [_structure(documents, row, headings) for row in range(len(documents))]
    empty = np.empty((2, 0), np.int32)
    under, sentences = np.concatenate([empty, *found], axis=1)
    return replace(documents, structure=FlatStructure(under, sentences))


def heading_number(name: str, headings: int) -> int:
    """The number of a section's name; 0 for the part of a text before its first heading."""
    if not name or headings == 1:
        return 0
    return 1 + int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "little") % (headings - 1)


def _structure(documents: Documents, row: int, headings: int) -> NDArray[np.int32]:
    starts = documents.char_starts[documents.token_starts[row] : documents.token_starts[row + 1]]
    text = documents.text_of(row)
    sections = sections_of(text, language_of(tokenize(text).forms))
    numbers = np.array([heading_number(name, headings) for name in sections.names], np.int32)
    borders = np.array([found.end() for found in BORDER.finditer(text)], np.int32)
    sentences = np.searchsorted(borders, starts, side="right")
    sentences = np.cumsum(np.diff(sentences, prepend=sentences[:1]) > 0)  # without those that have no word
    return np.stack([numbers[sections.at(starts)], sentences]).astype(np.int32)
