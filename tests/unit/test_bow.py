"""The planted bag of words, beside plainer ways to compute the same."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from plant.candidates.boosting import probabilities
from plant.codes.codebook import CodeBook
from plant.data.corpus import Role, TrainingView, held_out, training_view
from plant.data.ngrams import count_ngrams
from plant.data.vectors import inverse_frequencies, vectors_of
from plant.errors import ArtifactError
from plant.recipe.schema import Bow, Relate
from plant.relevance.relevance import TokenRelevance
from plant.steps.relate import relate
from plant.store.ragged import Ragged
from plant.systems.bow import (
    BowSystem,
    _probabilities,
    explain_bow,
    features_of,
    fit_bow,
    parted,
    significant,
    unpack_bow,
)
from plant.systems.judging import JUDGED, judged, text_features
from plant.systems.neighbours import KINDS, Found, nearest
from plant.systems.system import Known
from plant.train.bow import BIAS_RATE, FIRST_SQUARES, LEAST, fit_join, learn, start_learning
from tests.made_up import corpus_of, notes_of

LISTS = partial(relate, recipe=Relate(keep=20))
EVIDENCE = ("logits", "listed", "sharp", "broad", "named", "matched", "covered", "sharpest", "voters", "first_voters",
            "closest")  # fmt: skip
RECIPE = Bow(significance=1.0, neighbours=5, held_out=0.2)


@pytest.fixture(scope="module")
def view() -> TrainingView:
    found = training_view(corpus_of(notes_of(60, n_codes=6)))
    names = {code: f"the {found.vocab.tokens[5 + label]} of {label}" for label, code in enumerate(found.codes)}
    return replace(found, codebook=CodeBook("other", found.codes, names))


@pytest.fixture(scope="module")
def bow(view: TrainingView) -> BowSystem:
    return fit_bow(view, relate(view, Relate(keep=20)), RECIPE, relate=LISTS)


def test_vectors_are_the_features_of_tfidf(view: TrainingView) -> None:
    table = count_ngrams(view.documents, vocab_size=len(view.vocab), longest=1, min_documents=1, max_ngrams=10**6)
    counts = np.zeros(len(view.vocab), np.int64)
    for row in range(len(view.documents)):
        counts[np.unique(view.documents.tokens_of(row))] += 1
    found = vectors_of(view.documents, inverse_frequencies(counts, len(view.documents)))
    dense = np.zeros((len(found), len(view.vocab)), np.float32)
    for row in range(len(found)):
        tokens, values = found.row(row)
        dense[row, tokens] = values
    np.testing.assert_allclose(dense[:, table.keys], table.features(view.documents).toarray(), atol=1e-6)


def test_vectors_turned_around_hold_the_same(bow: BowSystem) -> None:
    turned = bow.fitted.by_token(len(bow.inverse))
    pairs = {(int(text), token) for token in range(len(turned)) for text in turned.row(token)[0]}
    assert pairs == {(text, int(token)) for text in range(len(bow.fitted)) for token in bow.fitted.row(text)[0]}


def test_neighbours_are_those_of_all_cosines(bow: BowSystem) -> None:
    dense = np.zeros((len(bow.fitted), len(bow.inverse)), np.float64)
    for row in range(len(dense)):
        tokens, values = bow.fitted.row(row)
        dense[row, tokens] = values
    cosines = dense @ dense.T
    np.fill_diagonal(cosines, 0)
    rows = np.arange(len(dense))
    found, values = nearest(bow.fitted, bow.postings, n_fitted=len(dense), most=5, own=rows)
    np.testing.assert_allclose(values, -np.sort(-cosines, axis=1)[:, :5], atol=1e-6)
    np.testing.assert_allclose(np.where(found >= 0, cosines[rows[:, None], found], 0), values, atol=1e-6)


def test_learning_is_adagrad_on_the_labels_that_a_text_touches(view: TrainingView) -> None:
    random = np.random.default_rng(0)
    inverse = np.ones(len(view.vocab), np.float32)
    texts, labels = vectors_of(view.documents, inverse), Ragged(view.documents.labels, view.documents.label_starts)
    listed = random.random((len(view.vocab), len(view.codes))) < 0.3
    lists = TokenRelevance(
        np.r_[0, np.cumsum(listed.sum(1))], np.nonzero(listed)[1].astype(np.int32), np.ones(listed.sum(), np.float32)
    )
    learning = start_learning(lists, np.full(len(view.codes), -1.0, np.float32), start=2.0)
    rows = np.arange(len(texts))
    (loss,) = learn(learning, texts, labels, rows=rows, epochs=1, rate=0.5, seed=3)
    weights, biases = np.where(listed, 2.0, 0.0), np.full(len(view.codes), -1.0)
    squares, bias_squares, expected = np.full(listed.shape, FIRST_SQUARES), np.ones(len(view.codes)), 0.0
    for row in np.random.default_rng(3).permutation(rows).tolist():
        tokens, values = texts.row(row)
        touched = listed[tokens].any(axis=0)
        gold = np.isin(np.arange(len(biases)), labels.row(row))
        shares = 1 / (1 + np.exp(-(biases + values @ weights[tokens])))
        expected -= np.log(np.where(gold, shares, 1 - shares)[touched]).sum()
        errors = np.where(touched & (np.abs(shares - gold) >= LEAST), shares - gold, 0)
        bias_squares += errors**2
        biases -= BIAS_RATE * errors / np.sqrt(bias_squares)
        for token, value in zip(tokens, values, strict=True):
            slope = np.where(listed[token], errors * value, 0)
            squares[token] += slope**2
            weights[token] -= 0.5 * slope / np.sqrt(squares[token])
    np.testing.assert_allclose(learning.listed.weights, weights[listed], atol=1e-3)
    np.testing.assert_allclose(learning.listed.biases, biases, atol=1e-3)
    assert loss == pytest.approx(expected / len(rows), rel=1e-3)


def test_a_join_is_the_logistic_regression_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    random = np.random.default_rng(1)
    features = np.c_[np.ones(400), random.normal(size=(400, 3))].astype(np.float32)
    truth = random.random(400) < 1 / (1 + np.exp(-features @ [-1, 2, 0, -1]))
    expected = linear_model.LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(
        features[:, 1:].astype(np.float64), truth
    )
    found = fit_join(features, truth)
    np.testing.assert_allclose(found, np.r_[expected.intercept_, expected.coef_[0]], atol=1e-4)


def test_found_evidence_is_what_plain_loops_find(view: TrainingView, bow: BowSystem) -> None:
    texts = vectors_of(view.documents, bow.inverse)
    near, cosines = bow.near(texts)
    for row, (found, _) in zip(range(10), bow.found(texts), strict=False):
        plain = plain_evidence(view, bow, row, near[row], cosines[row])
        assert found.labels.tolist() == sorted(plain)
        for place, label in enumerate(found.labels.tolist()):
            values = [getattr(found, name)[place] for name in EVIDENCE]
            np.testing.assert_allclose(values, plain[label], atol=1e-5)


def plain_evidence(view: TrainingView, bow: BowSystem, row: int, near, cosines) -> dict[int, list[float]]:  # type: ignore[no-untyped-def]
    words = dict(zip(*(array.tolist() for array in vectors_of(view.documents, bow.inverse).row(row)), strict=True))
    stems = {view.vocab.tokens[token][:5] for token in words}
    plain = {}
    for label, code in enumerate(view.codes):
        listing = {t: e for t in words for e in range(bow.listed.starts[t], bow.listed.starts[t + 1])
                   if bow.listed.labels[e] == label}  # fmt: skip
        logit = bow.listed.biases[label] + sum(bow.listed.weights[e] * words[t] for t, e in listing.items())
        voters = [
            place for place, text in enumerate(near.tolist()) if text >= 0 and label in bow.fitted_labels.row(text)
        ]
        sharp = sum(cosines[v] ** 3 for v in voters) / max(1e-9, sum(cosines**3))
        broad = sum(cosines[v] for v in voters) / max(1e-9, sum(cosines))
        named = name_share(view, bow, view.codebook.description(code), stems)
        if listing or voters or named:
            sharpest = sum(cosines[v] ** 6 for v in voters) / max(1e-9, sum(cosines**6))
            covered = sum(words[t] ** 2 for t in listing)
            plain[label] = [logit, bool(listing), sharp, broad, named, len(listing), covered, sharpest, len(voters),
                            sum(v < 10 for v in voters), max(cosines[voters], default=0)]  # fmt: skip
    return plain


def name_share(view: TrainingView, bow: BowSystem, name: str, stems: set[str]) -> float:
    words = sorted({word[:5] for word in name.split() if word.isalpha()})
    rarity = {word: min([float(bow.inverse[token]) for token in range(2, len(view.vocab))
                         if view.vocab.tokens[token][:5] == word], default=float(bow.inverse.max()))
              for word in words}  # fmt: skip
    share = sum(rarity[word] for word in words if word in stems) / sum(rarity.values())
    return share if share >= 0.4 else 0.0


def test_what_words_give_adds_up_to_the_logit(view: TrainingView, bow: BowSystem) -> None:
    from plant.data.corpus import take

    labels = np.arange(len(view.codes))
    for row in range(5):
        one = take(view.documents, np.array([row]))
        ((found, _),) = bow.found(vectors_of(one, bow.inverse))
        logits = np.log(bow.usual.values) - np.log1p(-bow.usual.values)
        silent = logits.copy()
        logits[found.labels] = features_of(found, bow.log_odds) @ bow.join
        given = explain_bow(bow, one, labels).sum(axis=1)
        np.testing.assert_allclose(given, logits - silent, atol=2e-3)


def test_a_text_without_known_words_gets_the_silent_scores(bow: BowSystem, view: TrainingView) -> None:
    from plant.data.corpus import take

    one = take(view.documents, np.array([0]))
    unknown = replace(one, tokens=np.ones_like(one.tokens))
    np.testing.assert_array_equal(bow.read(unknown).scores[0], bow.usual.values)
    assert not bow.read(unknown).weigh(0, [0, 1], explainer="").any()


def test_lists_hold_only_significant_words(view: TrainingView) -> None:
    relevance = relate(view, Relate(keep=20))
    kept = significant(relevance, 5.0).scores > 0
    np.testing.assert_array_equal(kept, 2 * relevance.n_documents * relevance.scores >= 5.0)
    assert 0 < kept.sum() < (relevance.scores > 0).sum()


def test_held_out_texts_and_the_rest_are_all_texts() -> None:
    kept, held = parted(50, 0.2, seed=4)
    assert len(held) == 10
    assert sorted([*kept, *held]) == list(range(50))


def test_the_same_seed_fits_the_same_system(view: TrainingView, bow: BowSystem) -> None:
    again = fit_bow(view, relate(view, Relate(keep=20)), RECIPE, relate=LISTS)
    np.testing.assert_array_equal(again.join, bow.join)
    np.testing.assert_array_equal(again.listed.weights, bow.listed.weights)


def test_without_neighbours_and_names_only_listed_words_speak(view: TrainingView) -> None:
    alone = fit_bow(view, relate(view, Relate(keep=20)), replace(RECIPE, neighbours=0, stem=0), relate=LISTS)
    assert len(alone.fitted) == len(alone.fitted_labels) == 0
    assert alone.read(view.documents).weigh(0, [0, 1], explainer="").shape[0] == 2
    for found, _ in alone.found(vectors_of(view.documents, alone.inverse)):
        assert found.listed.all()
        assert not found.sharp.any()
        assert not found.named.any()


def test_labels_that_nothing_speaks_for_keep_the_order_of_the_formula(bow: BowSystem) -> None:
    nothing = np.zeros(1, np.float32)
    one = Found(np.array([2], np.int32), bow.listed.biases[2:3], *[nothing] * (KINDS - 1))
    assert bow.usual.values[2] == pytest.approx(_probabilities(features_of(one, bow.log_odds) @ bow.join)[0])


def test_notes_of_other_roles_are_scored(view: TrainingView) -> None:
    corpus = corpus_of(notes_of(60, n_codes=6))
    fitted = training_view(corpus)
    system = fit_bow(fitted, relate(fitted, Relate(keep=20)), RECIPE, relate=LISTS)
    reported = held_out(corpus, Role.REPORT, fitted.codes)
    scores = system.read(reported).scores
    assert scores.shape == (len(reported), len(fitted.codes))
    assert ((scores > 0) & (scores < 1)).all()


def test_the_judge_sees_ranks_and_gaps_of_the_best_labels_of_the_join(bow: BowSystem, view: TrainingView) -> None:
    for found, text in bow.found(vectors_of(view.documents, bow.inverse)):
        kinds = features_of(found, bow.log_odds)
        joined = kinds @ bow.join
        seen = judged(found, kinds, joined, text)
        order = sorted(range(len(joined)), key=lambda place: -joined[place])
        assert seen.places.tolist() == sorted(order[:JUDGED])
        for row, place in enumerate(seen.places.tolist()):
            more = ("matched", "covered", "sharpest", "voters", "first_voters", "closest")
            plain = [*kinds[place, 1:], joined[place], *(getattr(found, name)[place] for name in more)]
            for evidence in (joined, found.logits, found.sharp):
                before = [other for other in seen.places if (-evidence[other], other) < (-evidence[place], place)]
                plain += [len(before), evidence[place] - max(evidence[seen.places])]
            np.testing.assert_allclose(seen.features[row], [*plain, *text], rtol=1e-5)


def test_the_best_labels_have_the_probability_of_the_judge(bow: BowSystem, view: TrainingView) -> None:
    scores = bow.read(view.documents).scores
    for row, (found, text) in enumerate(bow.found(vectors_of(view.documents, bow.inverse))):
        kinds = features_of(found, bow.log_odds)
        seen = judged(found, kinds, kinds @ bow.join, text)
        expected = probabilities(bow.judge, seen.features)
        np.testing.assert_allclose(scores[row, found.labels[seen.places]], expected, rtol=1e-6)


def test_a_packed_system_scores_the_same(bow: BowSystem, view: TrainingView) -> None:
    again = unpack_bow(bow.pack(), Known(view.vocab, view.codes, view.codebook))
    np.testing.assert_array_equal(again.read(view.documents).scores, bow.read(view.documents).scores)


def test_a_coder_from_before_the_judge_is_refused_in_one_line(bow: BowSystem, view: TrainingView) -> None:
    packed = bow.pack()
    old = replace(packed, options={"neighbours": 5})
    with pytest.raises(ArtifactError, match="earlier version.*fit it again with plant run"):
        unpack_bow(old, Known(view.vocab, view.codes, view.codebook))


def test_texts_with_few_neighbours_show_the_cosines_that_there_are() -> None:
    np.testing.assert_allclose(text_features(3, np.array([0.5, 0.25], np.float32)), [3, 0.5, 0.25, 0.25])
    np.testing.assert_array_equal(text_features(3, np.zeros(0, np.float32)), [3, 0, 0, 0])
