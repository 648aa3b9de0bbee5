"""What became of the gold and the accepted codes of every document: all that measures ask."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.evaluate.measures.areas import Areas, areas_of
from plant.evaluate.measures.hierarchy import Closure, HierarchicalCounts, closure_of, hierarchical_counts
from plant.evaluate.scores.lists import Lists, Mask, joined, member_of
from plant.evaluate.scores.scored import Scored

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """Places and acceptance of the gold codes, and the accepted codes, of every document."""

    n_labels: int
    gold: Lists
    ranks: NDArray[np.int64]  # of each gold entry, from 1; UNRANKED where it is in no list
    accepted: Lists
    train_counts: NDArray[np.int64]
    train_documents: int = 0
    areas: Areas | None = None
    closure: Closure | None = None

    def __len__(self) -> int:
        return len(self.gold)

    @cached_property
    def found(self) -> Mask:
        """Whether each gold entry is accepted."""
        return member_of(self.gold, self.accepted, self.n_labels)

    @cached_property
    def right(self) -> Numbers:
        """Accepted gold codes of each document."""
        return self.gold.sums(self.found)

    @property
    def gold_counts(self) -> Numbers:
        """Gold codes of each document."""
        return self.gold.lengths.astype(np.float64)

    @property
    def accepted_counts(self) -> Numbers:
        """Accepted codes of each document."""
        return self.accepted.lengths.astype(np.float64)

    @cached_property
    def by_rank(self) -> Lists:
        """The gold entries of each document, the best ranked first; `ranks_in_order` goes with it."""
        return Lists(self.gold.labels[self._order], self.gold.starts)

    @cached_property
    def ranks_in_order(self) -> NDArray[np.int64]:
        """The rising ranks of each document's gold entries."""
        return self.ranks[self._order]

    @cached_property
    def hierarchical(self) -> HierarchicalCounts:
        """Counts over the codes and their ancestors."""
        if self.closure is None:
            raise ValueError("hierarchical measures need a code book with parents")
        return hierarchical_counts(self.gold, self.accepted, self.closure)

    @cached_property
    def active(self) -> NDArray[np.int32]:
        """The labels that are gold or accepted somewhere."""
        return np.unique(np.concatenate([self.gold.labels, self.accepted.labels]))

    @cached_property
    def label_matrices(self) -> tuple[csr_array, csr_array, csr_array]:
        """Active labels x documents: right, accepted, gold."""
        return self._matrix(self.gold.keep(self.found)), self._matrix(self.accepted), self._matrix(self.gold)

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.lexsort((self.ranks, self.gold.documents))

    def _matrix(self, lists: Lists) -> csr_array:
        rows = np.searchsorted(self.active, lists.labels)
        return csr_array((np.ones(len(rows)), (rows, lists.documents)), shape=(len(self.active), len(self)))


def outcome_of(scored: Scored, *, areas: bool = True) -> Outcome:
    """The outcome of scored documents; areas under curves, the costliest part, may be left out."""
    scores = scored.scores
    return Outcome(
        n_labels=scored.n_labels,
        gold=scored.gold,
        ranks=scores.ranks(scored.gold),
        accepted=scores.accepted(),
        train_counts=scored.train_counts,
        train_documents=scored.train_documents,
        areas=areas_of(scores, scored.gold, scored.n_labels) if areas and scores.valued else None,
        closure=None if scored.codebook is None else closure_of(scored.codes, scored.codebook),
    )


def pooled(first: Outcome, second: Outcome) -> Outcome:
    """The documents of one outcome after those of another over the same labels; areas do not pool."""
    if first.n_labels != second.n_labels:
        raise ValueError("outcomes over different labels cannot be pooled")
    return replace(
        first,
        gold=joined(first.gold, second.gold),
        ranks=np.concatenate([first.ranks, second.ranks]),
        accepted=joined(first.accepted, second.accepted),
        areas=None,
    )
