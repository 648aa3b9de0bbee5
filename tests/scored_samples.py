"""Made-up scored documents for the tests of evaluation."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.evaluate.scores.scored import Frame, Scored, scored_densely


def matrix(
    documents: int = 40, labels: int = 25, *, seed: int = 0, strength: float = 1.0
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Probabilities (without ties while it is small) and targets; no document is without a code."""
    random = np.random.default_rng(seed)
    chances = 0.5 / np.arange(1, labels + 1) ** 0.7
    targets = random.random((documents, labels)) < chances
    targets[np.arange(documents), random.integers(0, labels, documents)] = True
    logits = np.log(chances) + strength * 2 * targets + random.normal(size=targets.shape)
    return (1 / (1 + np.exp(-logits))).astype(np.float32), targets


def scored(
    scores: NDArray[np.float32], targets: NDArray[np.generic], *, thresholds: float = 0.5, train_documents: int = 100
) -> Scored:
    """The matrix as scored documents, with a code book of chapters and made-up training counts."""
    codes = [f"{'ABC'[label % 3]}{label:02d}" for label in range(scores.shape[1])]
    counts = np.linspace(train_documents, 0, scores.shape[1]).astype(np.int64)
    return scored_densely(
        scores,
        ids=[f"d{row}" for row in range(len(scores))],
        codes=codes,
        gold=codes_of(targets, codes),
        thresholds=thresholds,
        train_counts=counts,
        train_documents=train_documents,
        codebook=book(codes),
        frame=Frame(system="sample", seed=3, threshold=thresholds, threshold_origin="micro-F1 on dev"),
    )


def codes_of(targets: NDArray[np.generic], codes: Sequence[str]) -> list[list[str]]:
    """The codes of each row."""
    return [[codes[label] for label in np.flatnonzero(row)] for row in targets]


def book(codes: Sequence[str]) -> CodeBook:
    """Codes under chapters named by their first letter."""
    return CodeBook(
        system="other",
        codes=tuple(codes),
        descriptions={code: f"Disease {code}" for code in codes} | {letter: f"Chapter {letter}" for letter in "ABC"},
        parents={code: code[0] for code in codes},
    )
