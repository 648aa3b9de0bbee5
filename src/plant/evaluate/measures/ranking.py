"""Sums over the ranked lists of documents, from the places of the gold codes alone."""

import numpy as np

from plant.evaluate.scores.forms import UNRANKED
from plant.evaluate.scores.lists import Lists
from plant.evaluate.scores.outcome import Numbers, Outcome

PROPENSITY_A, PROPENSITY_B = 0.55, 1.5  # the values in use where a data set has none of its own


def hits_at(outcome: Outcome, k: int) -> Numbers:
    """Gold codes among the first `k` of each document."""
    return outcome.gold.sums(outcome.ranks <= k)


def average_precision_sums(outcome: Outcome, k: int | None = None) -> Numbers:
    """The sum over each document's gold codes of the precision at their places."""
    ranks = outcome.ranks_in_order
    counted = ranks <= (UNRANKED - 1 if k is None else k)
    return outcome.by_rank.sums(np.where(counted, outcome.by_rank.places / ranks, 0.0))


def r_precisions(outcome: Outcome) -> Numbers:
    """Share of the first codes, as many as are gold, that are right."""
    wanted = np.repeat(outcome.gold.lengths, outcome.gold.lengths)
    return outcome.gold.sums((outcome.ranks <= wanted) / wanted)


def discounted(outcome: Outcome, k: int, *, gains: Numbers | None = None, discount: bool = True) -> Numbers:
    """The gains (per label; 1 by default) of each document's gold codes among the first `k`."""
    values = np.where(outcome.ranks <= k, 1.0 if gains is None else gains[outcome.gold.labels], 0.0)
    return outcome.gold.sums(values / np.log2(outcome.ranks + 1.0) if discount else values)


def ideal_discounted(outcome: Outcome, k: int) -> Numbers:
    """What `discounted` could be at best with equal gains."""
    totals = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])
    return totals[np.minimum(outcome.gold.lengths, k)]


def best_gains(outcome: Outcome, k: int, *, gains: Numbers, discount: bool = True) -> Numbers:
    """What `discounted` could be at best with these gains per label: the dearest gold codes in front."""
    order = np.lexsort((-gains[outcome.gold.labels], outcome.gold.documents))
    dearest = Lists(outcome.gold.labels[order], outcome.gold.starts)
    values = np.where(dearest.places <= k, gains[dearest.labels], 0.0)
    return dearest.sums(values / np.log2(dearest.places + 1.0) if discount else values)


def inverse_propensities(outcome: Outcome) -> Numbers:
    """One over the chance that a true code was written down, from how often training has it."""
    constant = (np.log(max(outcome.train_documents, 3)) - 1) * (PROPENSITY_B + 1) ** PROPENSITY_A
    return 1 + constant * (outcome.train_counts + PROPENSITY_B) ** -PROPENSITY_A
