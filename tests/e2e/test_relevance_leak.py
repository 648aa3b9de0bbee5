"""Relevance knows nothing of held-out notes, and this test would notice if it did."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from plant.data.corpus import Corpus, Documents, Role, TrainingView, held_out, training_view
from plant.recipe.schema import Rank, Relate
from plant.relevance.relevance import Relevance
from plant.steps.rank import rank
from plant.steps.relate import relate
from plant.types import Note
from tests.made_up import corpus_of
from tests.relevance_samples import listed


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Notes whose codes have nothing to do with their words."""
    random = np.random.default_rng(0)
    words = [f"w{chr(97 + i // 26 // 26)}{chr(97 + i // 26 % 26)}{chr(97 + i % 26)}" for i in range(3000)]
    notes = []
    for number in range(600):
        text = " ".join(random.choice(words, 120))
        codes = tuple(f"C{label}" for label in np.flatnonzero(random.random(40) < 0.04))
        notes.append(Note(f"n{number}", text, codes, split="train" if number % 2 else "test"))
    return corpus_of(notes)


def with_everything(corpus: Corpus) -> TrainingView:
    """The leak: a view that has the held-out notes in it, which no function of the package can make."""
    return TrainingView(corpus.vocab, corpus.codebook, corpus.codes, corpus.documents)


def auc_of(scores_of_pairs: np.ndarray, documents: Documents) -> float:
    """Macro AUC of a scorer that adds up what the words of a note say."""
    targets = documents.targets(len(scores_of_pairs))
    sums = [scores_of_pairs[:, np.unique(documents.tokens_of(row))].sum(1) for row in range(len(documents))]
    known = (targets.sum(0) > 0) & (targets.sum(0) < len(targets))
    return float(roc_auc_score(targets[:, known], np.array(sums)[:, known], average="macro"))


def ranker_scores(relevance: Relevance) -> np.ndarray:
    """The ranker's scores, softened so that, as in attention, the words it ranks first speak loudest."""
    import torch

    ranker = rank(relevance, Rank(size=32, epochs=15, k=100), seed=1).ranker
    with torch.no_grad():
        return ranker.scores(torch.arange(relevance.n_tokens), torch.arange(len(relevance.codes))).sigmoid().numpy()


@pytest.mark.parametrize("scores_of", [listed, ranker_scores])
def test_codes_at_random_are_not_found_in_held_out_notes(corpus: Corpus, scores_of) -> None:  # type: ignore[no-untyped-def]
    view = training_view(corpus)
    auc = auc_of(scores_of(relate(view, Relate())), held_out(corpus, Role.REPORT, view.codes))
    assert auc == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("scores_of", [listed, ranker_scores])
def test_a_leak_would_be_noticed(corpus: Corpus, scores_of) -> None:  # type: ignore[no-untyped-def]
    auc = auc_of(scores_of(relate(with_everything(corpus), Relate())), held_out(corpus, Role.REPORT, corpus.codes))
    assert auc > 0.9
