"""Thresholds, tuned on the notes kept for choosing: never on those that are reported."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plant.errors import InputError, unknown
from plant.evaluate.scores.forms import BLOCK, Dense, RankedLists, Values, blocks
from plant.evaluate.scores.lists import Lists, lists_of_mask

Goal = Literal["micro-F1", "macro-F1"]
Gold = Lists | NDArray[np.generic]
"""The gold labels of dev notes: lists, or a matrix that is not zero where a label is gold."""

CANDIDATES = 400  # thresholds tried for macro-F1, at equal steps of the gold scores' order


def tune_global_threshold(
    scores: NDArray[np.floating] | RankedLists, targets: Gold, *, measure: Goal = "micro-F1"
) -> float:
    """The threshold with the best micro-F1 (exact) or macro-F1 (best of 400) on dev scores.

    They are a matrix, documents x labels, or the best labels of each: a label beyond them is never accepted.
    """
    if measure not in ("micro-F1", "macro-F1"):
        raise InputError(unknown("goal of a threshold:", measure, ["micro-F1", "macro-F1"]))
    form, gold = _form(scores), _lists(targets)
    if not len(gold.labels):
        raise InputError("a threshold cannot be tuned on notes without codes")
    return _best_macro(form, gold) if measure == "macro-F1" else best_threshold(form, gold, n_labels=_width(form, gold))


def best_threshold(scores: Dense | RankedLists, gold: Lists, *, n_labels: int) -> float:
    """The threshold with the best micro-F1, for scores in either form.

    Lowering a threshold gains only where it reaches another gold score, so no other candidates need be tried.
    """
    standing, own = scores.standing_overall(gold, n_labels), scores.scores_of(gold)
    if np.isneginf(own).all():
        return 1.0  # what is listed is all wrong
    f1 = 2 * _reaching(np.sort(own), own) / (standing.above + standing.tied + len(own))
    best = float(own[int(np.where(np.isneginf(own), -1.0, f1).argmax())])
    return _between(best, _next_below(scores, best))


def tune_label_thresholds(
    scores: NDArray[np.floating] | RankedLists, targets: Gold, *, shrinkage: float = 10.0, n_labels: int = 0
) -> NDArray[np.float32]:
    """A threshold per label: its own best by F1, drawn to the global one the more the fewer dev notes have the label.

    A label with n gold dev notes gets (n x own + shrinkage x global) / (n + shrinkage). Lists do not tell how many
    labels there are: `n_labels` does.
    """
    form, gold = _form(scores), _lists(targets)
    common = tune_global_threshold(scores, gold)
    thresholds = np.full(n_labels or _width(form, gold), common)
    own_scores = form.scores_of(gold).astype(np.float32)
    for column, entries in form.columns(gold):
        own = _best_in_label(column, np.sort(own_scores[entries]))
        thresholds[gold.labels[entries[0]]] = (len(entries) * own + shrinkage * common) / (len(entries) + shrinkage)
    return thresholds.astype(np.float32)


def _form(scores: NDArray[np.floating] | RankedLists) -> Dense | RankedLists:
    if isinstance(scores, RankedLists):
        return scores
    return Dense(scores.astype(np.float32, copy=False), np.zeros(scores.shape[1], np.float32))


def _lists(gold: Gold) -> Lists:
    return gold if isinstance(gold, Lists) else lists_of_mask(gold)


def _width(form: Dense | RankedLists, gold: Lists) -> int:
    """The number of labels; of lists, as far as they or the gold labels tell."""
    if isinstance(form, Dense):
        return form.values.shape[1]
    return 1 + int(max(form.lists.labels.max(initial=-1), gold.labels.max(initial=-1)))


def _best_in_label(column: Values, positives: Values) -> float:
    """The best threshold by F1, given the rising scores of a label and of its gold documents, some perhaps without."""
    n_gold, positives = len(positives), positives[np.isfinite(positives)]
    accepted = _reaching(column, positives)
    best = int(np.argmax(2 * _reaching(positives, positives) / (accepted + n_gold)))
    refused = len(column) - accepted[best] - 1
    return _between(float(positives[best]), float(column[refused]) if refused >= 0 else -np.inf)


def _best_macro(form: Dense | RankedLists, gold: Lists) -> float:
    """The best of evenly ranked gold scores, by mean F1 over the labels that are gold."""
    own = form.scores_of(gold).astype(np.float32)
    found = np.sort(own[np.isfinite(own)])
    if not len(found):
        return best_threshold(form, gold, n_labels=_width(form, gold))
    steps = np.linspace(0, len(found) - 1, min(CANDIDATES, len(found))).astype(int)
    candidates = np.unique(found[steps])
    totals = np.zeros(len(candidates))
    for column, entries in form.columns(gold):
        right = _reaching(np.sort(own[entries]), candidates)
        totals += 2 * right / (_reaching(column, candidates) + len(entries))
    best = float(candidates[int(totals.argmax())])
    return _between(best, _next_below(form, best))


def _reaching(rising: NDArray[np.floating], candidates: NDArray[np.floating]) -> NDArray[np.int64]:
    """How many of the rising numbers reach each candidate."""
    return len(rising) - np.searchsorted(rising, candidates, side="left")


def _next_below(scores: Dense | RankedLists, value: float) -> float:
    """The greatest score below `value`, minus infinity where there is none."""
    values = np.zeros(0, np.float32) if scores.values is None else scores.values
    width = values.shape[1] if values.ndim > 1 else 1
    best = -np.inf
    for rows in blocks(len(values), BLOCK // max(1, width)):
        part = values[rows]
        best = max(best, float(part[part < np.float32(value)].max(initial=-np.inf)))
    return best


def _between(accepted: float, refused: float) -> float:
    """A threshold midway between the last accepted and the first refused score, exact in float32."""
    if not np.isfinite(refused):
        return accepted
    middle = np.float32((accepted + refused) / 2)
    return float(middle) if middle > np.float32(refused) else accepted
