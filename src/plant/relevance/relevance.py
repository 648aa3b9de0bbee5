"""Relevance: per label the tokens that say most about it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from plant.relevance.counts import Tokens
from plant.relevance.mutual_information import Form


@dataclass(frozen=True)
class Relevance:
    """The best tokens of each label, best first, and the counts they come from.

    A row of fewer than `keep` tokens is filled up with token 0 (padding) and score 0: what scores 0 is not listed.
    """

    codes: tuple[str, ...]
    tokens: Tokens  # [label, keep]
    scores: NDArray[np.float32]  # [label, keep]
    label_counts: NDArray[np.int64]
    token_counts: NDArray[np.int64]
    n_documents: int
    form: Form

    @property
    def n_tokens(self) -> int:
        """The size of the vocabulary."""
        return len(self.token_counts)

    def dense(self, labels: NDArray[np.integer]) -> NDArray[np.float32]:
        """The scores of some labels over the whole vocabulary, zero where a token is not listed."""
        rows = np.zeros((len(labels), self.n_tokens), dtype=np.float32)
        np.put_along_axis(rows, self.tokens[labels].astype(np.int64), self.scores[labels], axis=1)
        rows[:, 0] = 0.0  # where the padding of short lists was put
        return rows

    def first(self, n: int) -> "Relevance":
        """The same with the first `n` tokens of each label."""
        return replace(self, tokens=self.tokens[:, :n], scores=self.scores[:, :n])

    def by_token(self) -> "TokenRelevance":
        """The same lists turned around: per token the labels that list it."""
        return lists_by_token(self.tokens, self.scores, n_tokens=self.n_tokens)


@dataclass(frozen=True)
class TokenRelevance:
    """Token t is listed by `labels[starts[t]:starts[t + 1]]` (rising) with these scores."""

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    scores: NDArray[np.float32]


def lists_by_token(tokens: Tokens, scores: NDArray[np.float32], *, n_tokens: int) -> TokenRelevance:
    """Lists of tokens [label, place] turned around; what scores 0 is not listed."""
    labels, places = np.nonzero(scores)
    listed = tokens[labels, places]
    order = np.argsort(listed, kind="stable")
    return TokenRelevance(
        starts=np.searchsorted(listed[order], np.arange(n_tokens + 1)),
        labels=labels[order].astype(np.int32),
        scores=scores[labels, places][order],
    )
