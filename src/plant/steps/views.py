"""The doors through which steps see a corpus: the fitted notes, the choosing notes, the text without codes.

A step that fits needs `view` and cannot reach any other note.
"""

from dataclasses import dataclass

import numpy as np

from plant.data.corpus import Documents, Role, gold_codes, held_out, take, training_view
from plant.steps.step import Step, Work, always


@dataclass(frozen=True)
class Choosing:
    """The notes that choose thresholds, epochs and weights; `gold` has all their codes, those without a label too."""

    documents: Documents
    gold: list[tuple[str, ...]]


def _choosing(work: Work) -> Choosing:
    corpus = work["corpus"]
    return Choosing(held_out(corpus, Role.CHOOSE, work["view"].codes), gold_codes(corpus, Role.CHOOSE))


def _unlabelled(work: Work) -> Documents:
    corpus = work["corpus"]
    return take(corpus.documents, np.flatnonzero(corpus.role == Role.UNLABELLED))


VIEW = Step("view", lambda work: training_view(work["corpus"]), always("corpus"))
CHOOSING = Step("choosing", _choosing, always("corpus", "view"))
UNLABELLED = Step("unlabelled", _unlabelled, always("corpus"))
VIEWS = (VIEW, CHOOSING, UNLABELLED)
