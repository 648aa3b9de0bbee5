"""Text as a language model reads it: documents in a new order each epoch, joined and cut into parallel streams."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents
from plant.nn.language.awd_lstm import Direction
from plant.nn.language.next_word import IGNORED
from plant.store.ragged import offsets
from plant.text.vocab import PADDING


@dataclass(frozen=True)
class Text:
    """Documents without anything but their tokens: document d owns `tokens[starts[d]:starts[d + 1]]`."""

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def n_questions(self) -> int:
        """How many words there are to foresee: every token, and the end of each document."""
        return len(self.tokens) + len(self)

    def shares(self, n_words: int) -> NDArray[np.float32]:
        """The share of each word among those to foresee."""
        counts = np.bincount(self.tokens, minlength=n_words)
        counts[PADDING] += len(self)
        return (counts / max(1, self.n_questions)).astype(np.float32)


def text_of(parts: Sequence[Documents]) -> Text:
    """The documents of all parts; empty ones are left out."""
    lengths = np.concatenate([np.diff(part.token_starts) for part in parts])
    starts = offsets(lengths[lengths > 0])
    return Text(np.concatenate([part.tokens for part in parts]), starts)


def streams(
    text: Text, *, batch: int, direction: Direction, seed: int, epoch: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """What is read and what is foreseen at each place, [batch, time]: nothing is left out, the end is filled up.

    Documents are parted by `PADDING`; a backward model reads each from its end.
    """
    order = np.random.default_rng([seed, epoch]).permutation(len(text))
    joined = _joined(text, order, backward=direction == "backward")
    length = -(-text.n_questions // batch)
    read, foreseen = np.full(batch * length, PADDING, np.int32), np.full(batch * length, IGNORED, np.int32)
    read[: text.n_questions], foreseen[: text.n_questions] = joined[:-1], joined[1:]
    return read.reshape(batch, length), foreseen.reshape(batch, length)


def _joined(text: Text, order: NDArray[np.intp], *, backward: bool) -> NDArray[np.int32]:
    """Documents in this order with `PADDING` before, between and after them."""
    joined = np.full(text.n_questions + 1, PADDING, np.int32)
    place = 1
    for document in order:
        tokens = text.tokens[text.starts[document] : text.starts[document + 1]]
        joined[place : place + len(tokens)] = tokens[::-1] if backward else tokens
        place += len(tokens) + 1
    return joined
