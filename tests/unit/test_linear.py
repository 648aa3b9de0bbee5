"""Frequency prior and TF-IDF: equal to scikit-learn, explained exactly, saved exactly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.special import logit
from sklearn.feature_extraction.text import TfidfVectorizer

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.corpus import Documents, TrainingView
from plant.data.ngrams import count_ngrams
from plant.errors import InputError, RecipeError
from plant.recipe import schema
from plant.store.safetensors import read_tensors, write_tensors
from plant.systems import tfidf
from plant.systems.prior import fit_prior
from plant.systems.system import Known, PackedSystem
from plant.systems.tfidf import TfidfSystem, explain_tfidf, label_vectors, near_rows, score_tfidf, unpack_tfidf
from plant.text.vocab import SPECIAL, UNKNOWN, Vocab
from plant.train.logistic import fit_logistic
from tests.made_up import documents_of, notes_of

VOCAB = Vocab((*SPECIAL, *"abcdefghijkl"))
CODES = ("A1", "B2", "C3")


def fit_tfidf(view: TrainingView, **knobs: Any) -> TfidfSystem:
    return tfidf.fit_tfidf(view, schema.Tfidf(**knobs))


@pytest.fixture(scope="module")
def documents() -> Documents:
    random = np.random.default_rng(5)
    tokens = [random.integers(2, len(VOCAB), size=size) for size in random.integers(1, 40, size=60)]
    labels = [[label for label in range(3) if label + 3 in document] for document in tokens]
    return documents_of(tokens, labels=labels)


@pytest.fixture(scope="module")
def view(documents: Documents) -> TrainingView:
    return TrainingView(VOCAB, CodeBook("icd10cm", CODES), CODES, documents)


def as_text(documents: Documents) -> list[str]:
    return [" ".join(VOCAB.tokens[token] for token in documents.tokens_of(d)) for d in range(len(documents))]


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_features_are_those_of_scikit_learn(
    documents: Documents, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plant.data.ngrams.DOCUMENTS_PER_BLOCK", 7)
    table = count_ngrams(documents, vocab_size=len(VOCAB), longest=longest, min_documents=3, max_ngrams=10**6)
    expected = TfidfVectorizer(ngram_range=(1, longest), min_df=3, sublinear_tf=True, token_pattern=r"\w")
    features = expected.fit_transform(as_text(documents)).toarray()
    columns = table.columns(np.array([_key(name) for name in expected.get_feature_names_out()]))
    assert len(table) == features.shape[1]
    assert_allclose(table.features(documents).toarray()[:, columns], features, atol=1e-6)


def _key(name: str) -> int:
    key = 0
    for token in VOCAB.encode(name.split()):
        key = key * len(VOCAB) + int(token)
    return key


def test_unknown_words_and_new_ngrams_count_nothing(view: TrainingView) -> None:
    model = fit_tfidf(view)
    known = documents_of([np.array([2, 3])], labels=[[]])
    with_unknown = documents_of([np.array([UNKNOWN, 2, 3])], labels=[[]])
    assert_array_equal(score_tfidf(model, known), score_tfidf(model, with_unknown))


def test_too_many_ngrams_leave_the_most_frequent(documents: Documents) -> None:
    table = count_ngrams(documents, vocab_size=len(VOCAB), longest=2, min_documents=1, max_ngrams=5)
    every = count_ngrams(documents, vocab_size=len(VOCAB), longest=2, min_documents=1, max_ngrams=10**6)
    assert_allclose(np.sort(table.idf), np.sort(every.idf)[:5])


def test_ngrams_that_overflow_are_refused(documents: Documents) -> None:
    with pytest.raises(InputError, match="63 bits"):
        count_ngrams(documents, vocab_size=60_000, longest=4, min_documents=1, max_ngrams=5)


def test_words_that_decide_a_code_are_learned(view: TrainingView) -> None:
    scores = score_tfidf(fit_tfidf(view, longest=1, cost=1000.0), view.documents)
    assert_array_equal(scores > 0.5, view.documents.targets(3) > 0)


def test_a_document_without_tokens_gets_the_intercepts(view: TrainingView) -> None:
    model = fit_tfidf(view)
    empty = documents_of([np.zeros(0, np.int32)], labels=[[]])
    assert_allclose(logit(score_tfidf(model, empty)[0]), model.linear.intercepts, rtol=1e-5)
    assert explain_tfidf(model, empty, 0, np.arange(3)).shape == (3, 0)


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_explanations_sum_to_the_logit(view: TrainingView, longest: int) -> None:
    model, labels = fit_tfidf(view, longest=longest), np.array([2, 0])
    given = (model.ngrams.features(view.documents) @ model.linear.weights.T).toarray()  # logits less intercepts
    for document in range(5):
        weights = explain_tfidf(model, view.documents, document, labels)
        assert weights.shape == (2, len(view.documents.tokens_of(document)))
        assert_allclose(weights.sum(1), given[document, labels], atol=1e-4)


def test_the_deciding_word_is_the_best_evidence(view: TrainingView) -> None:
    model = fit_tfidf(view, longest=1)
    document = next(d for d in range(60) if 1 in view.documents.labels_of(d))
    weights = explain_tfidf(model, view.documents, document, np.array([1]))[0]
    assert view.documents.tokens_of(document)[weights.argmax()] == 4


def test_prior_is_the_share_of_documents(view: TrainingView) -> None:
    scores = fit_prior(view).read(view.documents).scores
    assert_allclose(scores, np.tile(view.documents.targets(3).mean(0), (60, 1)), rtol=1e-6)


def test_a_saved_model_scores_the_same(view: TrainingView, tmp_path: Path) -> None:
    model = fit_tfidf(view)
    packed = model.pack()
    write_tensors(tmp_path / "tfidf.safetensors", packed.arrays)
    arrays = read_tensors(tmp_path / "tfidf.safetensors")
    loaded = unpack_tfidf(
        PackedSystem(packed.tag, packed.options, arrays), Known(VOCAB, CODES, CodeBook("other", CODES, {}))
    )
    assert_array_equal(score_tfidf(loaded, view.documents), score_tfidf(model, view.documents))


def test_fitting_twice_gives_the_same_weights(view: TrainingView) -> None:
    first, second = (fit_tfidf(view).linear.weights.toarray() for _ in range(2))
    assert_array_equal(first, second)


def test_the_recipe_says_how_long_ngrams_are() -> None:
    notes = notes_of(40)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    words, pairs = (
        Coder("tfidf", "prepare.min_count=1", f"tfidf.longest={longest}").fit(texts, codes, choose=0.2).fitted.system
        for longest in (1, 2)
    )
    assert isinstance(words, TfidfSystem)
    assert isinstance(pairs, TfidfSystem)
    assert len(pairs.ngrams) > len(words.ngrams)


def test_too_many_notes_and_codes_are_refused_with_a_way_out(
    view: TrainingView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfidf, "MOST_PAIRS", len(view.documents) * len(CODES) - 1)
    with pytest.raises(RecipeError, match=r"3 codes on all of 60 notes.*plant-bow.*tfidf.negatives=near"):
        fit_tfidf(view)
    assert fit_tfidf(view, negatives="near", near=1).linear.weights.shape[0] == 3


def test_near_negatives_are_the_notes_of_the_labels_with_the_greatest_cosine(view: TrainingView) -> None:
    random = np.random.default_rng(2)
    features = csr_array((random.random((40, 12)) < 0.4) * random.random((40, 12)), dtype=np.float32)
    targets = csr_array(random.random((40, 6)) < 0.2, dtype=np.float32)
    sums = targets.toarray().T @ features.toarray()
    cosines = sums @ sums.T / np.outer(np.linalg.norm(sums, axis=1), np.linalg.norm(sums, axis=1))
    np.fill_diagonal(cosines, -1)
    rows = near_rows(features, targets, near=2, seed=1)
    for label in range(6):
        close = [label, *np.argsort(-cosines[label])[:2]]
        wanted = np.flatnonzero(targets.toarray()[:, close].any(axis=1))
        assert set(wanted) <= set(rows(label))
        assert len(rows(label)) <= 2 * len(wanted)
        assert_array_equal(rows(label), rows(label))


def test_vectors_of_labels_are_their_notes_summed_and_scaled() -> None:
    random = np.random.default_rng(3)
    features = csr_array(random.random((20, 9)) * (random.random((20, 9)) < 0.5), dtype=np.float32)
    targets = csr_array(random.random((20, 4)) < 0.3, dtype=np.float32)
    sums = targets.toarray().T @ features.toarray()
    found = label_vectors(features, targets)
    for label in range(4):
        tokens, values = found.row(label)
        dense = np.zeros(9)
        dense[tokens] = values
        assert_allclose(dense, sums[label] / np.linalg.norm(sums[label]), atol=1e-6)


def test_a_label_fitted_on_all_rows_is_fitted_as_without_them(view: TrainingView) -> None:
    table = count_ngrams(view.documents, vocab_size=len(VOCAB), longest=1, min_documents=1, max_ngrams=10**6)
    features, targets = table.features(view.documents), tfidf._targets(view)
    every = fit_logistic(features, targets, cost=10.0)
    asked = fit_logistic(features, targets, cost=10.0, rows=lambda label: np.arange(len(view.documents)))
    assert_array_equal(every.weights.toarray(), asked.weights.toarray())
    assert_array_equal(every.intercepts, asked.intercepts)
