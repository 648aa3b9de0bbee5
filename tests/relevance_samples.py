"""What tests of relevance share: plain definitions, small views, small lists."""

import numpy as np

from plant.codes.codebook import CodeBook
from plant.data.corpus import TrainingView
from plant.recipe.schema import Relate
from plant.relevance.relevance import Relevance
from plant.steps.relate import relate
from plant.text.vocab import SPECIAL, Vocab
from tests.made_up import documents_of


def view_of(tokens: list[list[int]], labels: list[list[int]], *, n_tokens: int, n_labels: int) -> TrainingView:
    """A training view of documents given as token numbers (from 2 on) and label numbers."""
    vocab = Vocab((*SPECIAL, *(f"word{number}" for number in range(len(SPECIAL), n_tokens))))
    codes = tuple(f"C{label}" for label in range(n_labels))
    book = CodeBook("other", codes, {code: f"the meaning of {code}" for code in codes})
    return TrainingView(vocab, book, codes, documents_of(tokens, labels=labels))


def random_view(seed: int, *, n_documents: int = 30, n_tokens: int = 20, n_labels: int = 6) -> TrainingView:
    """Random documents of random lengths, the empty one among them, with random labels."""
    random = np.random.default_rng(seed)
    tokens = [random.integers(0, n_tokens, random.integers(0, 15)).tolist() for _ in range(n_documents)]
    shares = random.uniform(0.02, 0.98, n_labels)
    labels = [np.flatnonzero(random.random(n_labels) < shares).tolist() for _ in range(n_documents)]
    return view_of(tokens, labels, n_tokens=n_tokens, n_labels=n_labels)


def defined_information(view: TrainingView, form: str = "mi") -> np.ndarray:
    """Mutual information by its definition, label x token, one cell of one pair at a time."""
    documents, n = view.documents, len(view.documents)
    has_token = np.zeros((n, len(view.vocab)), dtype=bool)
    has_label = np.zeros((n, len(view.codes)), dtype=bool)
    for row in range(n):
        has_token[row, documents.tokens_of(row)] = True
        has_label[row, documents.labels_of(row)] = True
    has_token[:, : len(SPECIAL)] = False
    rows = [[_of_pair(label, token, form) for token in has_token.T] for label in has_label.T]
    return np.array(rows).reshape(len(view.codes), len(view.vocab))


def entropy(events: np.ndarray) -> float:
    """Of a yes-or-no event."""
    shares = np.array([events.mean(), 1 - events.mean()])
    return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


def listed(relevance: Relevance) -> np.ndarray:
    """The lists as a dense matrix, label x token."""
    return relevance.dense(np.arange(len(relevance.codes)))


def small_relevance(seed: int = 0, **sizes: int) -> Relevance:
    """Relevance of a random view."""
    return relate(random_view(seed, **sizes), Relate(), threads=1)


def _of_pair(label: np.ndarray, token: np.ndarray, form: str) -> float:
    information = joint_entropy = 0.0
    for is_label in (True, False):
        for is_token in (True, False):
            joint = ((label == is_label) & (token == is_token)).mean()
            if joint > 0:
                independent = (label == is_label).mean() * (token == is_token).mean()
                information += joint * np.log(joint / independent)
                joint_entropy -= joint * np.log(joint)
    if form == "normalised":
        return information / joint_entropy if joint_entropy > 0 else 0.0
    repelled = (label & token).mean() < label.mean() * token.mean()
    return 0.0 if form == "positive" and repelled else information
