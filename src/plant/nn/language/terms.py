"""What labels are called, as an encoder reads it: the title of each, then its synonyms and what coders marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from plant.codes.codebook import CodeBook
from plant.nn.matching.names import Names
from plant.tensors import Batch
from plant.text.vocab import Vocab


@dataclass(frozen=True)
class Terms:
    """Each distinct term once, and the terms of each label, the title first."""

    batch: Batch
    of_label: tuple[tuple[int, ...], ...]


def term_texts(codes: Sequence[str], codebook: CodeBook, names: Names | None, vocab: Vocab) -> list[tuple[str, ...]]:
    """The title of each code, or the code where it has none, then its other names, those that most notes have first."""
    further: list[list[str]] = [[] for _ in codes]
    for label, text in _by_support(names, vocab, len(codes)) if names is not None else ():
        further[label].append(text)
    books = [codebook.names(code) if names is None else (codebook.description(code),) for code in codes]
    every = [[name for name in (*book, *more) if name] for book, more in zip(books, further, strict=True)]
    return [_distinct(own or [code]) for own, code in zip(every, codes, strict=True)]


def _by_support(names: Names, vocab: Vocab, n_codes: int) -> Iterator[tuple[int, str]]:
    """The names of so many codes; of the trained codes alone, those that there were in training."""
    known = names.n_trained if n_codes == names.n_labels else len(names)
    for name in np.argsort(-names.support[:known], kind="stable").tolist():
        words = names.words[names.starts[name] : names.starts[name + 1]].tolist()
        yield int(names.labels[name]), " ".join(vocab.tokens[word] for word in words)


def _distinct(texts: Sequence[str]) -> tuple[str, ...]:
    """The texts without those that only differ in capitals."""
    return tuple({text.lower(): text for text in reversed(texts)}[key] for key in dict.fromkeys(map(str.lower, texts)))


def spread_terms(lists: Sequence[Sequence[int]], *, each: int) -> list[list[int]]:
    """Just `each` of every list, from the first again where it has fewer."""
    return [[own[place % len(own)] for place in range(each)] for own in (some[:each] for some in lists)]
