"""Planted bag of words: learned weights of listed words, the labels of similar texts, and words of labels' names.

For many labels of short texts. A label's logit is a weighted sum of what speaks for it: docs/models/plant-bow.md.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates.boosting import Trees, fit_trees, pack, probabilities, unpack
from plant.data.corpus import Documents, TrainingView, take
from plant.data.vectors import TextVectors, inverse_frequencies, vectors_of
from plant.errors import ArtifactError, InputError
from plant.evaluate.choosing.calibration import logits_of
from plant.evaluate.scores.of_texts import Sparse, Usual, sparse_of
from plant.recipe.schema import Bow
from plant.relevance.relevance import Relevance
from plant.store.checks import check_finite, check_length, check_numbers, check_shape, check_starts
from plant.store.ragged import Ragged
from plant.systems.judging import judged, text_features
from plant.systems.neighbours import HALF_NAMED, KINDS, MANY_NAMES, SHARP, Found, Names, gather, name_stems, nearest
from plant.systems.system import CONTRIBUTION, UNSEEN, Growth, Known, PackedSystem
from plant.systems.widened import WidenedSystem, widened
from plant.train.bow import ListedWeights, fit_join, learn, start_learning
from plant.types import Progress, silent

TAG = "plant-bow"
TREES = ("feature", "threshold", "left", "right", "missing_left", "value", "gain", "starts")
NO_VOTE = 1e-4  # a share of the neighbours' votes that stands for none
WHOLE = 0.99  # of a name that stands in the text: all of it
JOINED, TRIED = 1_000, 4_000  # held-out texts: enough to fit a few weights, and to fit a judge
CONSTANT, LOGIT, UNLISTED, SHARP_VOTE, BROAD_VOTE, LOG_ODDS, NAMED, WHOLE_NAME = range(8)


@dataclass(frozen=True)
class BowSystem:
    """What is known of words, fitted texts and names, the weights that join this evidence, and a judge of the best.

    The vectors of the fitted texts are part of the system: their neighbours are looked for whenever a text is read.
    """

    inverse: NDArray[np.float32]  # document frequencies, per token
    listed: ListedWeights
    log_odds: NDArray[np.float32]  # per label, among the fitted texts
    fitted: TextVectors
    fitted_labels: Ragged
    names: Names
    neighbours: int
    join: NDArray[np.float32]  # a weight for each kind of evidence
    judge: Trees  # of the best labels by the join

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> "BowReading":
        return BowReading(self, documents)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "BowSystem":
        return self

    def with_codes(self, growth: Growth) -> WidenedSystem:
        return widened(self, growth)

    def pack(self) -> PackedSystem:
        arrays: dict[str, NDArray[Any]] = {
            "inverse": self.inverse,
            "log_odds": self.log_odds,
            "join": self.join,
            "fitted_label_starts": self.fitted_labels.starts,
            "fitted_labels": self.fitted_labels.values,
        }
        groups = {"listed": self.listed, "fitted": self.fitted, "names": self.names}
        arrays |= {f"{group}_{name}": array for group, thing in groups.items() for name, array in vars(thing).items()}
        options, trees = pack(self.judge)
        arrays |= {f"judge_{name}": array for name, array in trees.items()}
        return PackedSystem(TAG, {"neighbours": self.neighbours, "judge": options}, arrays)

    @cached_property
    def postings(self) -> TextVectors:
        """The fitted texts of each word."""
        return self.fitted.by_token(len(self.inverse))

    @cached_property
    def usual(self) -> Usual:
        """The probability of each label for a text in which nothing speaks for it."""
        every = np.arange(len(self.log_odds), dtype=np.int32)
        nothing = np.zeros(len(every), np.float32)
        found = Found(every, self.listed.biases, *[nothing] * (KINDS - 1))
        return Usual(_probabilities(features_of(found, self.log_odds) @ self.join), known=len(every))

    def near(self, texts: TextVectors) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The neighbours of texts among the fitted ones, and their cosines."""
        return nearest(texts, self.postings, n_fitted=len(self.fitted), most=self.neighbours)

    def found(self, texts: TextVectors) -> Iterator[tuple[Found, NDArray[np.float32]]]:
        """What speaks for the labels of each text, and what the judge sees of the text itself."""
        near = self.near(texts)
        for row, found in enumerate(gather(texts, near, self.listed, self.fitted_labels, self.names)):
            yield found, text_features(len(texts.row(row)[0]), near[1][row])

    def scores_of(self, found: Found, text: NDArray[np.float32]) -> NDArray[np.float32]:
        """The probabilities of the labels that were found: the best by the judge, the others by the join."""
        kinds = features_of(found, self.log_odds)
        joined = kinds @ self.join
        scores, best = _probabilities(joined), judged(found, kinds, joined, text)
        scores[best.places] = probabilities(self.judge, best.features)
        return scores


@dataclass(frozen=True)
class BowReading:
    """Scores to which words add, each by itself, through neighbours that share it, and through names that have it."""

    bow: BowSystem
    documents: Documents

    @property
    def known(self) -> int:
        return len(self.bow.log_odds)

    @cached_property
    def text_scores(self) -> Sparse:
        texts = vectors_of(self.documents, self.bow.inverse)
        found = [(found.labels, self.bow.scores_of(found, text)) for found, text in self.bow.found(texts)]
        return sparse_of(found, self.bow.usual)

    @property
    def scores(self) -> NDArray[np.float32]:
        return self.text_scores.filled()

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        if explainer not in ("", CONTRIBUTION):
            raise InputError(f"a bag of words explains itself by {CONTRIBUTION!r} only, not by {explainer!r}")
        return explain_bow(self.bow, take(self.documents, np.array([row])), np.asarray(labels, np.int64))


def fit_bow(
    view: TrainingView,
    relevance: Relevance,
    recipe: Bow,
    *,
    relate: Callable[[TrainingView], Relevance],
    seed: int = 1,
    progress: Progress = silent,
) -> BowSystem:
    """Learn from most fitted texts, with lists of their own; join and judge on the rest; then learn from all texts."""
    kept, held = parted(len(view.documents), recipe.held_out, seed=seed)
    most = replace(view, documents=take(view.documents, kept))
    # lists of all texts would hold the rarest words of held-out texts, and be believed too much
    join, judge = _weighed(
        _learned(most, relate(most), recipe, seed=seed, progress=progress), take(view.documents, held[:TRIED]), seed
    )
    bow = replace(_learned(view, relevance, recipe, seed=seed, progress=progress), join=join, judge=judge)
    return bow if recipe.neighbours else _without_texts(bow)


def _learned(view: TrainingView, relevance: Relevance, recipe: Bow, *, seed: int, progress: Progress) -> BowSystem:
    """Words that have learned from all texts of a view; nothing is joined and judged yet."""
    documents, counts = view.documents, view.label_counts()
    inverse = inverse_frequencies(relevance.token_counts, len(documents))
    log_odds = logits_of((counts + UNSEEN) / (len(documents) + 2 * UNSEEN)).astype(np.float32)
    texts, labels = vectors_of(documents, inverse), Ragged(documents.labels, documents.label_starts)
    learning = start_learning(significant(relevance, recipe.significance).by_token(), log_odds, start=recipe.start)
    learn(learning, texts, labels, rows=np.arange(len(texts)), epochs=recipe.epochs, rate=recipe.learning_rate,
          seed=seed, progress=progress)  # fmt: skip
    return BowSystem(
        inverse=inverse,
        listed=learning.listed,
        log_odds=log_odds,
        fitted=texts,
        fitted_labels=labels,
        names=name_stems(view.codes, view.codebook, view.vocab, inverse, letters=recipe.stem),
        neighbours=min(recipe.neighbours, len(documents)),
        join=np.zeros(WHOLE_NAME + 1, np.float32),
        judge=fit_trees(np.zeros((0, 1), np.float32), np.zeros(0, np.bool_), rounds=0),
    )


def _weighed(bow: BowSystem, documents: Documents, seed: int) -> tuple[NDArray[np.float32], Trees]:
    """The join and the judge, fitted on candidates of texts that the system did not learn from."""
    texts = vectors_of(documents, bow.inverse)
    join = fit_join(*_evidence(bow, take(documents, np.arange(min(JOINED, len(documents))))))
    features, truth = [], []
    for row, (found, text) in enumerate(bow.found(texts)):
        kinds = features_of(found, bow.log_odds)
        best = judged(found, kinds, kinds @ join, text)
        features.append(best.features)
        truth.append(np.isin(found.labels[best.places], documents.labels_of(row)))
    return join, fit_trees(np.concatenate(features), np.concatenate(truth), seed=seed)


def _without_texts(bow: BowSystem) -> BowSystem:
    """The same system without the fitted texts, which only neighbours are looked for in."""
    none = np.zeros(1, np.int64)
    nothing = TextVectors(none, np.zeros(0, np.int32), np.zeros(0, np.float32))
    return replace(bow, fitted=nothing, fitted_labels=Ragged(np.zeros(0, np.int32), none))


def parted(n_texts: int, share: float, *, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The texts that words learn from first, and a share, at least one text, that the join is fitted on; both drawn."""
    order = np.random.default_rng(seed).permutation(n_texts)
    n_held = max(1, round(share * n_texts))
    return np.sort(order[n_held:]), order[:n_held]


def significant(relevance: Relevance, least: float) -> Relevance:
    """The lists without words whose G, twice the number of texts times the mutual information, is below `least`."""
    kept = 2 * relevance.n_documents * relevance.scores >= least
    return replace(relevance, scores=np.where(kept, relevance.scores, 0))


def features_of(found: Found, log_odds: NDArray[np.float32]) -> NDArray[np.float32]:
    """The kinds of evidence for each label that was found, a column each."""
    columns = [
        np.ones(len(found.labels)),
        found.logits,
        ~found.listed,
        np.log(NO_VOTE + found.sharp),
        np.log(NO_VOTE + found.broad),
        log_odds[found.labels],
        found.named,
        found.named >= WHOLE,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _evidence(bow: BowSystem, documents: Documents) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The evidence of all candidates of some texts, and which are right."""
    features, truth = [], []
    for row, (found, _) in enumerate(bow.found(vectors_of(documents, bow.inverse))):
        features.append(features_of(found, bow.log_odds))
        truth.append(np.isin(found.labels, documents.labels_of(row)))
    return np.concatenate(features), np.concatenate(truth)


def explain_bow(bow: BowSystem, document: Documents, labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """What each token gives to the join's logits; a row sums to the logit less that of a text that says nothing.

    Votes of neighbours and parts of names are shared among the words that made them; a word's share among its places.
    """
    texts = vectors_of(document, bow.inverse)
    tokens, values = texts.row(0)
    near, cosines = (array[0] for array in bow.near(texts))
    given = _of_lists(bow, tokens, values, labels)
    given += _of_neighbours(bow, tokens, values, near[near >= 0], cosines[near >= 0], labels)
    given += _of_names(bow, tokens, labels)
    places = np.searchsorted(tokens, document.tokens)
    known = places < len(tokens)
    known[known] = tokens[places[known]] == document.tokens[known]
    weights = np.zeros((len(labels), len(document.tokens)), np.float32)
    counts = np.bincount(places[known], minlength=len(tokens))
    weights[:, known] = (given / np.maximum(counts, 1))[:, places[known]]
    return weights


def _of_lists(
    bow: BowSystem, tokens: NDArray[np.int32], values: NDArray[np.float32], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What listed words give, [label, word]; that any is listed at all is to the credit of all that are."""
    given, listed = np.zeros((len(labels), len(tokens))), np.zeros((len(labels), len(tokens)), np.bool_)
    for word, token in enumerate(tokens.tolist()):
        own = slice(bow.listed.starts[token], bow.listed.starts[token + 1])
        listing, weights = bow.listed.labels[own], bow.listed.weights[own]
        places = np.searchsorted(listing, labels)
        found = places < len(listing)
        found[found] = listing[places[found]] == labels[found]
        listed[found, word] = True
        given[found, word] = bow.join[LOGIT] * weights[places[found]] * values[word]
    return given - listed * (bow.join[UNLISTED] / np.maximum(1, listed.sum(axis=1)))[:, None]


def _of_neighbours(
    bow: BowSystem,
    tokens: NDArray[np.int32],
    values: NDArray[np.float32],
    near: NDArray[np.int32],
    cosines: NDArray[np.float32],
    labels: NDArray[np.int64],
) -> NDArray[np.float64]:
    """What neighbours give by the words that they share with the text, [label, word]."""
    shared, votes = np.zeros((len(near), len(tokens))), np.zeros((len(labels), len(near)))
    for place, text in enumerate(near.tolist()):
        words, theirs = bow.fitted.row(text)
        _, ours, mine = np.intersect1d(tokens, words, assume_unique=True, return_indices=True)
        shared[place, ours] = values[ours] * theirs[mine]
        votes[:, place] = np.isin(labels, bow.fitted_labels.row(text))
    shared /= np.maximum(shared.sum(axis=1, keepdims=True), 1e-12)  # of each vote, the part of each word
    given = np.zeros((len(labels), len(tokens)))
    for kind, power in ((SHARP_VOTE, SHARP), (BROAD_VOTE, 1)):
        weights = cosines.astype(np.float64) ** power
        by_word = votes * (weights / max(1e-12, weights.sum())) @ shared
        shares = by_word.sum(axis=1, keepdims=True)
        gained = bow.join[kind] * (np.log(NO_VOTE + shares) - np.log(NO_VOTE))
        given += gained * by_word / np.maximum(shares, 1e-12)
    return given


def _of_names(bow: BowSystem, tokens: NDArray[np.int32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """What words of names give, [label, word], by the best name of each label."""
    names, stems = bow.names, bow.names.stems[tokens]
    given = np.zeros((len(labels), len(tokens)))
    parts: dict[int, dict[int, float]] = {}
    for stem in np.unique(stems[stems >= 0]).tolist():
        own = slice(names.starts[stem], names.starts[stem + 1])
        for name, weight in zip(names.names[own].tolist(), names.weights[own].tolist(), strict=True):
            if own.stop - own.start <= MANY_NAMES:
                parts.setdefault(name, {})[stem] = weight
    asked = {label: row for row, label in enumerate(labels.tolist())}
    best: dict[int, int] = {}
    for name, found in parts.items():
        label = int(names.labels[name])
        if label in asked and sum(found.values()) > sum(parts.get(best.get(label, -1), {}).values()):
            best[label] = name
    for label, name in best.items():
        share = sum(parts[name].values())
        if np.float32(share) >= HALF_NAMED:
            gained = bow.join[NAMED] * share + bow.join[WHOLE_NAME] * (share >= WHOLE)
            for stem, weight in parts[name].items():
                words = np.flatnonzero(stems == stem)
                given[asked[label], words] += gained * weight / share / len(words)
    return given


def unpack_bow(packed: PackedSystem, known: Known) -> BowSystem:
    """The system that `pack` took apart."""
    if "judge" not in packed.options:
        raise ArtifactError(
            "this plant-bow coder is of an earlier version, which had no judge: fit it again with plant run"
        )
    arrays = {name: np.asarray(array) for name, array in packed.arrays.items()}

    def group(prefix: str, fields: Sequence[str]) -> dict[str, NDArray[Any]]:
        return {name: arrays[f"{prefix}_{name}"] for name in fields}

    bow = BowSystem(
        inverse=arrays["inverse"],
        listed=ListedWeights(**group("listed", ("starts", "labels", "weights", "biases"))),
        log_odds=arrays["log_odds"],
        fitted=TextVectors(**group("fitted", ("starts", "tokens", "values"))),
        fitted_labels=Ragged(arrays["fitted_labels"], arrays["fitted_label_starts"]),
        names=Names(**group("names", ("stems", "starts", "names", "weights", "labels"))),
        neighbours=packed.options["neighbours"],
        join=arrays["join"],
        judge=unpack(packed.options["judge"], group("judge", TREES)),
    )
    _check(bow, words=len(known.vocab), labels=len(known.codes))
    return bow


def _check(bow: BowSystem, *, words: int, labels: int) -> None:
    """Refuse what compiled walks would follow out of their tables."""
    listed, fitted, names = bow.listed, bow.fitted, bow.names
    check_shape("inverse", bow.inverse, (words,))
    check_shape("log_odds", bow.log_odds, (labels,))
    check_shape("join", bow.join, (WHOLE_NAME + 1,))
    check_starts("listed_starts", listed.starts, len(listed.labels), rows=words)
    check_numbers("listed_labels", listed.labels, labels)
    check_shape("listed_weights", listed.weights, (len(listed.labels),))
    check_shape("listed_biases", listed.biases, (labels,))
    check_starts("fitted_starts", fitted.starts, len(fitted.tokens))
    check_numbers("fitted_tokens", fitted.tokens, words)
    check_shape("fitted_values", fitted.values, (len(fitted.tokens),))
    check_starts("fitted_label_starts", bow.fitted_labels.starts, len(bow.fitted_labels.values), rows=len(fitted))
    check_numbers("fitted_labels", bow.fitted_labels.values, labels)
    check_length("names_stems", names.stems, words)
    check_numbers("names_stems", names.stems, len(names.starts) - 1, least=-1)
    check_starts("names_starts", names.starts, len(names.names))
    check_numbers("names_names", names.names, len(names.labels))
    check_shape("names_weights", names.weights, (len(names.names),))
    check_numbers("names_labels", names.labels, labels)
    check_finite({
        "inverse": bow.inverse, "log_odds": bow.log_odds, "join": bow.join, "listed_weights": listed.weights,
        "listed_biases": listed.biases, "fitted_values": fitted.values, "names_weights": names.weights,
    })  # fmt: skip
    if not 0 <= bow.neighbours <= max(len(fitted), len(bow.fitted_labels)):
        raise ArtifactError("neighbours of the folder are more than its texts: make it again")


def _probabilities(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    return (1 / (1 + np.exp(-np.clip(logits, -80, 80)))).astype(np.float32)
