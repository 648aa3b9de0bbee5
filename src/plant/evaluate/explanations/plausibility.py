"""Explanations against what human coders marked: do the weights lie on the words that people point at?"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.measures.areas import average_precision
from plant.types import Span

Weights = NDArray[np.floating]
Tokens = NDArray[np.bool_]


@dataclass(frozen=True)
class Plausibility:
    """Agreement of one explanation with the marked tokens."""

    precision: float
    recall: float
    f1: float
    iou: float
    auprc: float  # of the weights themselves: needs no choice of tokens


def marked_tokens(starts: NDArray[np.integer], ends: NDArray[np.integer], spans: Sequence[Span]) -> Tokens:
    """The tokens that share a character with a span; starts and ends are the tokens' characters, rising."""
    marked = np.zeros(len(starts), bool)
    for span in spans:
        marked[np.searchsorted(ends, span.start, side="right") : np.searchsorted(starts, span.end, side="left")] = True
    return marked


def chosen_tokens(weights: Weights, *, share: float) -> Tokens:
    """The tokens with at least `share` of the greatest weight; none where no weight is positive."""
    greatest = float(weights.max(initial=0.0))
    return (weights >= share * greatest) & (weights > 0)


def plausibility(weights: Weights, marked: Tokens, *, share: float) -> Plausibility:
    """The agreement of an explanation, cut at `share` of its greatest weight, with at least one marked token."""
    chosen = chosen_tokens(weights, share=share)
    both, either = int((chosen & marked).sum()), int((chosen | marked).sum())
    return Plausibility(
        precision=both / max(1, int(chosen.sum())),
        recall=both / max(1, int(marked.sum())),
        f1=2 * both / max(1, int(chosen.sum() + marked.sum())),
        iou=both / max(1, either),
        auprc=average_precision(weights, marked),
    )


def tune_share(examples: Sequence[tuple[Weights, Tokens]], *, steps: int = 50) -> float:
    """The share with the best mean token F1 on explanations of dev notes."""
    shares = np.linspace(0, 1, steps + 1)[1:]
    means = [
        np.mean([plausibility(weights, marked, share=share).f1 for weights, marked in examples]) for share in shares
    ]
    return float(shares[int(np.argmax(means))])


def mean_plausibility(examples: Sequence[tuple[Weights, Tokens]], *, share: float) -> dict[str, float]:
    """Every number of `Plausibility`, averaged over the explanations; those without a marked token are left out."""
    rows = [asdict(plausibility(weights, marked, share=share)) for weights, marked in examples if marked.any()]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]} if rows else {}
