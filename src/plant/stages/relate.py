"""relate: from fitted notes to the tokens that say most about each label."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from plant.data.corpus import TrainingView
from plant.recipe import Relate
from plant.relevance.counts import count, incidence, label_blocks, token_type
from plant.relevance.mutual_information import best_tokens
from plant.relevance.relevance import Relevance
from plant.types import Progress, silent


def relate(view: TrainingView, recipe: Relate, progress: Progress = silent, *, threads: int | None = None) -> Relevance:
    """The best tokens of every label; the result does not depend on the number of threads."""
    found = incidence(view.documents, n_tokens=len(view.vocab), n_labels=len(view.codes))
    keep = min(recipe.keep, found.n_tokens)
    tokens = np.zeros((found.n_labels, keep), dtype=token_type(found.n_tokens))
    scores = np.zeros((found.n_labels, keep), dtype=np.float32)

    def fill(labels: range) -> range:
        rows = slice(labels.start, labels.stop)
        tokens[rows], scores[rows] = best_tokens(count(found, labels), form=recipe.form, keep=keep)
        return labels

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for done in pool.map(fill, label_blocks(found)):
            progress("relate", done.stop, found.n_labels)
    return Relevance(
        codes=view.codes,
        tokens=tokens,
        scores=scores,
        label_counts=np.diff(found.document_starts),
        token_counts=found.token_counts,
        n_documents=found.n_documents,
        form=recipe.form,
    )
