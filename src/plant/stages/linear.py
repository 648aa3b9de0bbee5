"""Baselines without a network: how frequent each code is, and logistic regression over TF-IDF of word n-grams."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.data.corpus import Documents, TrainingView, take
from plant.data.ngrams import NgramTable, count_ngrams, find_ngrams
from plant.train.logistic import Linear, fit_logistic
from plant.types import Progress, silent


@dataclass(frozen=True)
class FrequencyPrior:
    """The share of fitted documents that have each code."""

    codes: tuple[str, ...]
    shares: NDArray[np.float32]


@dataclass(frozen=True)
class TfidfModel:
    """Which n-grams count, and each code's weights of them."""

    codes: tuple[str, ...]
    ngrams: NgramTable
    linear: Linear


def fit_prior(view: TrainingView) -> FrequencyPrior:
    """Count the codes."""
    counts = np.bincount(view.documents.labels, minlength=len(view.codes))
    return FrequencyPrior(view.codes, (counts / max(1, len(view.documents))).astype(np.float32))


def score_prior(model: FrequencyPrior, documents: Documents) -> NDArray[np.float32]:
    """Probabilities, documents x labels: the same for every document."""
    return np.tile(model.shares, (len(documents), 1))


def fit_tfidf(
    view: TrainingView,
    *,
    longest: int = 1,
    min_documents: int = 3,
    max_ngrams: int = 1_000_000,
    cost: float = 300.0,
    prune: float = 0.1,
    seed: int = 1,
    progress: Progress = silent,
) -> TfidfModel:
    """Choose and weigh the n-grams of up to `longest` words, and fit one logistic regression per code."""
    table = count_ngrams(
        view.documents,
        vocab_size=len(view.vocab),
        longest=longest,
        min_documents=min_documents,
        max_ngrams=max_ngrams,
    )
    linear = fit_logistic(
        table.features(view.documents), _targets(view), cost=cost, prune=prune, seed=seed, progress=progress
    )
    return TfidfModel(view.codes, table, linear)


def score_tfidf(model: TfidfModel, documents: Documents) -> NDArray[np.float32]:
    """Probabilities, documents x labels."""
    from scipy.special import expit  # loading a coder need not wait for it

    logits = (model.ngrams.features(documents) @ model.linear.weights.T).toarray()
    return expit(logits + model.linear.intercepts).astype(np.float32)


def explain_tfidf(
    model: TfidfModel, documents: Documents, document: int, labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What each token of a document gives to the logits of labels, labels x tokens; a row sums to logit - intercept.

    What an n-gram gives is shared evenly by its occurrences and their words.
    """
    table, only = model.ngrams, take(documents, np.array([document]))
    given = (model.linear.weights[labels] * table.features(only).toarray()).toarray()  # [labels, n-grams]
    found = list(find_ngrams(only, 0, 1, longest=table.longest, vocab_size=table.vocab_size))
    columns = [table.columns(ngrams.keys) for ngrams in found]
    counts = np.bincount(np.concatenate(columns) + 1, minlength=len(table) + 1)[1:]
    weights = np.zeros((len(labels), len(only.tokens)))
    for ngrams, places in zip(found, columns, strict=True):
        positions, places = ngrams.positions[places >= 0], places[places >= 0]
        for offset in range(ngrams.length):
            weights[:, positions + offset] += given[:, places] / counts[places] / ngrams.length
    return weights


def pack_tfidf(model: TfidfModel) -> dict[str, NDArray[Any]]:
    """N-grams and weights as arrays."""
    weights = model.linear.weights
    return {
        "shape": np.array([model.ngrams.vocab_size, model.ngrams.longest], np.int64),
        "keys": model.ngrams.keys,
        "idf": model.ngrams.idf,
        "starts": weights.indptr.astype(np.int64),
        "columns": weights.indices.astype(np.int32),
        "weights": weights.data,
        "intercepts": model.linear.intercepts,
    }


def unpack_tfidf(tensors: Mapping[str, NDArray[Any]], codes: tuple[str, ...]) -> TfidfModel:
    """The model that `pack_tfidf` took apart."""
    vocab_size, longest = (int(number) for number in tensors["shape"])
    table = NgramTable(vocab_size, longest, tensors["keys"], tensors["idf"])
    parts = (tensors["weights"], tensors["columns"], tensors["starts"])
    weights = csr_array(parts, shape=(len(codes), len(table)))
    return TfidfModel(codes, table, Linear(weights, tensors["intercepts"]))


def _targets(view: TrainingView) -> csr_array:
    """The fitted labels as a sparse 0/1 matrix, documents x labels."""
    documents = view.documents
    ones = np.ones(len(documents.labels), np.float32)
    return csr_array((ones, documents.labels, documents.label_starts), shape=(len(documents), len(view.codes)))
