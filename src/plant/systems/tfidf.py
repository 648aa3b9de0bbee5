"""Logistic regression over TF-IDF of word n-grams: what everything else has to beat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.data.corpus import Documents, TrainingView, take
from plant.data.ngrams import NgramTable, count_ngrams, find_ngrams
from plant.data.vectors import TextVectors
from plant.errors import InputError, RecipeError
from plant.recipe import schema
from plant.store.checks import check_length, check_numbers, check_starts
from plant.store.ragged import Ragged, offsets
from plant.systems.system import CONTRIBUTION, Growth, Known, PackedSystem
from plant.systems.widened import WidenedSystem, widened
from plant.train.linear import Linear
from plant.types import Progress, silent

TAG = "tfidf"
MOST_PAIRS = 1_000_000_000  # of notes and codes; 3.7e9 would take about 39 hours
WORDS = 50  # of a label, by which labels like it are found


@dataclass(frozen=True)
class TfidfReading:
    """Scores to which each word adds its own."""

    scores: NDArray[np.float32]
    tfidf: "TfidfSystem"
    documents: Documents

    @property
    def known(self) -> int:
        return self.scores.shape[1]

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        if explainer not in ("", CONTRIBUTION):
            raise InputError(f"a linear model explains itself by {CONTRIBUTION!r} only, not by {explainer!r}")
        return explain_tfidf(self.tfidf, self.documents, row, np.asarray(labels, np.int64)).astype(np.float32)


@dataclass(frozen=True)
class TfidfSystem:
    """Which n-grams count, and each code's weights of them."""

    ngrams: NgramTable
    linear: Linear

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> TfidfReading:
        return TfidfReading(score_tfidf(self, documents), self, documents)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "TfidfSystem":
        return self

    def with_codes(self, growth: Growth) -> WidenedSystem:
        return widened(self, growth)

    def pack(self) -> PackedSystem:
        weights = self.linear.weights
        arrays = {
            "keys": self.ngrams.keys,
            "idf": self.ngrams.idf,
            "starts": weights.indptr.astype(np.int64),
            "columns": weights.indices.astype(np.int32),
            "weights": weights.data,
            "intercepts": self.linear.intercepts,
        }
        return PackedSystem(TAG, {"vocab_size": self.ngrams.vocab_size, "longest": self.ngrams.longest}, arrays)


def fit_tfidf(
    view: TrainingView,
    recipe: schema.Tfidf,
    *,
    seed: int = 1,
    progress: Progress = silent,
) -> TfidfSystem:
    """Choose and weigh the n-grams of up to `longest` words, and fit one logistic regression per code."""
    from plant.train.logistic import fit_logistic  # compiled: a fitted system does without

    check_size(len(view.documents), len(view.codes), recipe)
    table = count_ngrams(
        view.documents,
        vocab_size=len(view.vocab),
        longest=recipe.longest,
        min_documents=recipe.min_documents,
        max_ngrams=recipe.max_ngrams,
    )
    features = table.features(view.documents)
    targets = _targets(view)
    rows = near_rows(features, targets, near=recipe.near, seed=seed) if recipe.negatives == "near" else None
    linear = fit_logistic(
        features, targets, cost=recipe.cost, prune=recipe.prune, seed=seed, rows=rows, progress=progress
    )
    return TfidfSystem(table, linear)


def check_size(notes: int, codes: int, recipe: schema.Tfidf) -> None:
    """Refuse what would take days: every code is fitted on every note."""
    if recipe.negatives == "all" and notes * codes > MOST_PAIRS:
        raise RecipeError(
            f"tfidf would fit each of {codes:,} codes on all of {notes:,} notes, which takes days: take "
            "the recipe plant-bow, or tfidf.negatives=near, which tells a code from codes like it only"
        )


def near_rows(features: csr_array, targets: csr_array, *, near: int, seed: int) -> Callable[[int], NDArray[np.int64]]:
    """The notes that each label is fitted on: its own, those of the `near` labels with the most similar words, and as
    many again drawn from all, since a label that never saw other notes would not know their words.
    """
    from plant.systems.neighbours import nearest  # compiled too

    by_label = csr_array(targets.T)
    notes = Ragged(by_label.indices, by_label.indptr.astype(np.int64))
    vectors = label_vectors(features, targets)
    postings = vectors.by_token(features.shape[1])
    own = np.arange(len(vectors))
    alike, _ = nearest(vectors, postings, n_fitted=len(vectors), most=min(near, len(own) - 1), own=own)

    def rows(label: int) -> NDArray[np.int64]:
        close = np.append(alike[label][alike[label] >= 0], label).astype(np.int64)
        chosen = np.unique(notes.take(close).values)
        drawn = np.random.default_rng([seed, label]).integers(0, targets.shape[0], len(chosen))
        return np.union1d(chosen, drawn).astype(np.int64)

    return rows


def label_vectors(features: csr_array, targets: csr_array) -> TextVectors:
    """The sum of each label's notes, its `WORDS` greatest entries, scaled to length 1."""
    sums = csr_array(targets.T @ features)
    starts, columns, values = [], [], []
    for first, last in pairwise(sums.indptr.tolist()):
        best = np.argsort(-sums.data[first:last], kind="stable")[:WORDS]
        best = best[np.argsort(sums.indices[first:last][best])]
        starts.append(len(best))
        columns.append(sums.indices[first:last][best])
        values.append(sums.data[first:last][best] / max(1e-12, float(np.linalg.norm(sums.data[first:last][best]))))
    empty = [np.zeros(0, np.int32)]
    return TextVectors(
        offsets(starts),
        np.concatenate(empty + columns).astype(np.int32),
        np.concatenate(empty + values).astype(np.float32),
    )


def unpack_tfidf(packed: PackedSystem, known: Known) -> TfidfSystem:
    """The system that `pack` took apart."""
    arrays = packed.arrays
    table = NgramTable(packed.options["vocab_size"], packed.options["longest"], arrays["keys"], arrays["idf"])
    check_starts("starts", arrays["starts"], len(arrays["columns"]), rows=len(known.codes))
    check_numbers("columns", arrays["columns"], len(table))
    check_length("weights", arrays["weights"], len(arrays["columns"]), finite=True)
    check_length("idf", arrays["idf"], len(table), finite=True)
    check_length("intercepts", arrays["intercepts"], len(known.codes), finite=True)
    parts = (arrays["weights"], arrays["columns"], arrays["starts"])
    weights = csr_array(parts, shape=(len(known.codes), len(table)))
    return TfidfSystem(table, Linear(weights, arrays["intercepts"]))


def score_tfidf(tfidf: TfidfSystem, documents: Documents) -> NDArray[np.float32]:
    """Probabilities, documents x labels."""
    from scipy.special import expit  # loading a coder need not wait for it

    logits = (tfidf.ngrams.features(documents) @ tfidf.linear.weights.T).toarray()
    return expit(logits + tfidf.linear.intercepts).astype(np.float32)


def explain_tfidf(
    tfidf: TfidfSystem, documents: Documents, document: int, labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What each token of a document gives to the logits of labels, labels x tokens; a row sums to logit - intercept.

    What an n-gram gives is shared evenly by its occurrences and their words.
    """
    table, only = tfidf.ngrams, take(documents, np.array([document]))
    given = (tfidf.linear.weights[labels] * table.features(only).toarray()).toarray()  # [labels, n-grams]
    found = list(find_ngrams(only, 0, 1, longest=table.longest, vocab_size=table.vocab_size))
    columns = [table.columns(ngrams.keys) for ngrams in found]
    counts = np.bincount(np.concatenate(columns) + 1, minlength=len(table) + 1)[1:]
    weights = np.zeros((len(labels), len(only.tokens)))
    for ngrams, places in zip(found, columns, strict=True):
        positions, places = ngrams.positions[places >= 0], places[places >= 0]
        for offset in range(ngrams.length):
            weights[:, positions + offset] += given[:, places] / counts[places] / ngrams.length
    return weights


def _targets(view: TrainingView) -> csr_array:
    """The fitted labels as a sparse 0/1 matrix, documents x labels."""
    documents = view.documents
    ones = np.ones(len(documents.labels), np.float32)
    return csr_array((ones, documents.labels, documents.label_starts), shape=(len(documents), len(view.codes)))
