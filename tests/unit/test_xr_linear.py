"""XR-Linear beside its equations written out over whole matrices, and what a folder of it may not say."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import TrainingView, take, training_view
from plant.data.vectors import TextVectors
from plant.errors import ArtifactError, InputError, RecipeError
from plant.recipe.schema import Prepare, XrLinear
from plant.systems.system import Known
from plant.systems.xr_linear import XrLinearSystem, fit_xr_linear, unpack_xr_linear
from tests.made_up import notes_of

SMALL = XrLinear(branches=2, smallest=2, beam=2, tolerance=1e-7, prune=0.0)
Matrix = NDArray[np.float64]


@pytest.fixture(scope="module")
def view() -> TrainingView:
    return training_view(build_corpus(notes_of(60, n_codes=13), CodeBook("other", ()), Prepare(min_count=1)))


@pytest.fixture(scope="module")
def system(view: TrainingView) -> XrLinearSystem:
    return fit_xr_linear(view, SMALL)


def dense(texts: TextVectors, n_words: int) -> Matrix:
    rows = np.zeros((len(texts), n_words))
    for row in range(len(texts)):
        words, values = texts.row(row)
        rows[row, words] = values
    return rows


def level_weights(system: XrLinearSystem, number: int, n_words: int) -> Matrix:
    """The weights of a level's nodes over all words."""
    level, above = system.levels[number], parents(system, number)
    every = np.arange(n_words)
    return np.stack([level.weights_of(int(parent), node, every) for node, parent in enumerate(above)])


def parents(system: XrLinearSystem, number: int) -> NDArray[np.int32]:
    return system.tree.above[number - 1] if number else np.zeros(system.tree.sizes[0], np.int32)


def plain_scores(system: XrLinearSystem, text: Matrix) -> Matrix:
    """The products along the ways of one text, and nothing below what its beam let go."""
    scores, followed = np.ones(1), np.array([True])
    for number, level in enumerate(system.levels):
        above = parents(system, number)
        margins = level_weights(system, number, len(text)) @ text + level.biases
        scores = np.exp(-(np.maximum(0, 1 - margins) ** 3)) * np.where(followed[above], scores[above], 0)
        followed = np.zeros(len(scores), bool)
        followed[np.argsort(-scores, kind="stable")[: system.beam]] = True
    return scores


def test_scores_are_those_of_the_equations(view: TrainingView, system: XrLinearSystem) -> None:
    assert system.tree.sizes == (2, 4, 8, 13)
    reading = system.read(view.documents)
    rows = dense(reading.texts, len(view.vocab))
    assert_allclose(reading.scores, [plain_scores(system, text) for text in rows], atol=1e-5)
    assert (reading.scores == 0).any(), "the beam must let go of something"


def test_a_node_learns_from_the_texts_of_the_cluster_above(view: TrainingView, system: XrLinearSystem) -> None:
    texts = dense(system.read(view.documents).texts, len(view.vocab))
    has = np.zeros((len(texts), 13), bool)
    for row in range(len(texts)):
        has[row, view.documents.labels_of(row)] = True
    for number in range(len(system.levels)):
        nodes = np.stack(
            [has[:, system.tree.to_level(number) == node].any(1) for node in range(system.tree.sizes[number])]
        )
        above = np.ones((1, len(texts)), bool) if not number else np.stack(
            [has[:, system.tree.to_level(number - 1) == node].any(1) for node in range(system.tree.sizes[number - 1])]
        )  # fmt: skip
        found = level_weights(system, number, len(view.vocab))
        for node, parent in enumerate(parents(system, number)):
            seen, right = above[parent], nodes[node]
            if right[seen].all():
                continue  # scikit-learn wants two classes
            expected = LinearSVC(tol=1e-9, max_iter=50_000, random_state=0).fit(texts[seen], right[seen])
            assert_allclose(found[node], expected.coef_[0], atol=2e-5)
            assert_allclose(system.levels[number].biases[node], expected.intercept_[0], atol=2e-5)


def test_texts_that_come_to_a_cluster_by_beam_may_teach_it_too(view: TrainingView, system: XrLinearSystem) -> None:
    followed = fit_xr_linear(view, replace(SMALL, negatives="followed"))
    assert_array_equal(followed.levels[0].weights, system.levels[0].weights)
    assert not np.array_equal(followed.levels[1].biases, system.levels[1].biases)


def test_other_texts_change_nothing(view: TrainingView, system: XrLinearSystem) -> None:
    together = system.read(view.documents).scores
    alone = [system.read(take(view.documents, np.array([row]))).scores[0] for row in range(5)]
    assert_array_equal(together[:5], np.stack(alone))


def test_the_seed_alone_decides(view: TrainingView) -> None:
    one, again, other = (fit_xr_linear(view, XrLinear(smallest=2, branches=2), seed=seed) for seed in (1, 1, 2))
    assert_array_equal(one.levels[0].weights, again.levels[0].weights)
    scores = [system.read(view.documents).scores for system in (one, other)]
    assert not np.array_equal(*scores)


def test_contributions_add_up_to_what_the_classifiers_say(view: TrainingView, system: XrLinearSystem) -> None:
    reading = system.read(view.documents)
    label = 5
    weights = reading.weigh(3, [label], explainer="")[0]
    text = dense(reading.texts, len(view.vocab))[3]
    said = sum(
        float(level_weights(system, number, len(text))[system.tree.to_level(number)[label]] @ text)
        for number in range(len(system.levels))
    )
    assert_allclose(weights.sum(), said, rtol=1e-5)
    with pytest.raises(InputError, match="explain themselves"):
        reading.weigh(3, [label], explainer="attention")


def test_a_coder_is_kept_and_learns(tmp_path: Path) -> None:
    notes = notes_of(200, n_codes=6)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    coder = Coder("xr-linear", "prepare.min_count=1", "xr_linear.smallest=2").fit(texts[:150], codes[:150], choose=0.2)
    found = coder.predict_proba(texts[150:])
    truth = np.array([[code in own for code in coder.classes_] for own in codes[150:]])
    assert found[truth].mean() > 2 * found[~truth].mean()
    coder.save(tmp_path / "coder")
    assert_array_equal(Coder.load(tmp_path / "coder").predict_proba(texts[150:]), found)


@pytest.mark.parametrize(
    ("name", "forged"),
    [
        ("level1.nodes", lambda nodes: nodes + 1000),
        ("level1.nodes", lambda nodes: nodes[::-1].copy()),
        ("level1.words", lambda words: words[::-1].copy()),
        ("level2.entries", lambda entries: entries + 1),
        ("level0.starts", lambda starts: starts - 1),
        ("level3.biases", lambda biases: biases[:-1]),
        ("level3.weights", lambda weights: weights * np.float32("nan")),
        ("above.1", lambda above: above - 1),
        ("inverse", lambda inverse: inverse[1:]),
    ],
)
def test_a_forged_folder_is_refused(view: TrainingView, system: XrLinearSystem, name: str, forged: object) -> None:
    known = Known(view.vocab, view.codes, CodeBook("other", ()))
    packed = system.pack()
    arrays: Mapping[str, np.ndarray] = packed.arrays
    assert_array_equal(unpack_xr_linear(packed, known).levels[2].words, system.levels[2].words)
    with pytest.raises(ArtifactError):
        unpack_xr_linear(replace(packed, arrays={**arrays, name: forged(arrays[name])}), known)  # type: ignore[operator]


def test_branches_are_halves_of_halves(view: TrainingView) -> None:
    with pytest.raises(RecipeError, match=r"xr_linear\.branches is 3"):
        fit_xr_linear(view, XrLinear(branches=3))
