"""The frequency prior: everybody gets the codes that training notes have most often. The row to beat."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.scores.forms import Constant
from plant.evaluate.scores.scored import Frame, Scored


def prior_scores(train_counts: NDArray[np.integer], train_documents: int) -> NDArray[np.float32]:
    """The share of training notes that have each code."""
    return (train_counts / max(1, train_documents)).astype(np.float32)


def prior_threshold(train_counts: NDArray[np.integer], train_documents: int) -> float:
    """The share from which on accepting a code for everybody pays, by micro-F1 on the training notes."""
    ordered = np.sort(train_counts[train_counts > 0])[::-1]
    if not len(ordered):
        return 1.0
    accepted = train_documents * np.arange(1, len(ordered) + 1)
    best = int(np.argmax(2 * np.cumsum(ordered) / (accepted + ordered.sum())))
    return float(np.float32(ordered[best] / train_documents))


def prior_of(scored: Scored) -> Scored | None:
    """The same documents scored by the prior, lists cut to the system's length; None without training counts."""
    if not scored.train_documents:
        return None
    counts, documents = scored.train_counts, scored.train_documents
    scores = Constant(
        values=prior_scores(counts, documents),
        threshold=prior_threshold(counts, documents),
        n_documents=len(scored),
        list_length=max(1, scored.scores.list_length),
    )
    frame = Frame(system="prior", threshold_origin="micro-F1 on the training notes")
    return replace(scored, scores=scores, frame=frame)
