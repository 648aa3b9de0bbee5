"""Linear support vector machines equal scikit-learn's, class by class."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, random_array
from sklearn.svm import LinearSVC

from plant.candidates.machines import fit_machines, margins


@pytest.fixture(scope="module")
def features() -> csr_array:
    return csr_array(random_array((150, 40), density=0.2, rng=np.random.default_rng(3), dtype=np.float32))


@pytest.fixture(scope="module")
def classes() -> csr_array:
    dense = np.random.default_rng(4).random((150, 4)) < [0.5, 0.1, 0.02, 0.0]
    dense[7, 2] = True
    return csr_array(dense.astype(np.float32))


@pytest.mark.parametrize("cost", [0.1, 2.0, 50.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_machines_are_those_of_liblinear(features: csr_array, classes: csr_array, cost: float, weighted: bool) -> None:
    weights = np.random.default_rng(5).random(150).astype(np.float32) + 0.1 if weighted else None
    fitted = fit_machines(features, classes, cost=cost, row_weights=weights, tolerance=1e-6, epochs=20_000)
    for label in range(3):
        expected = LinearSVC(C=cost, loss="squared_hinge", tol=1e-8, max_iter=100_000)
        expected.fit(features, classes.toarray()[:, label] > 0, sample_weight=weights)
        assert_allclose(fitted.weights[label], expected.coef_[0], atol=2e-4)
        assert_allclose(fitted.intercepts[label], expected.intercept_[0], atol=2e-4)


def test_margins_are_products_with_the_weights(features: csr_array, classes: csr_array) -> None:
    fitted = fit_machines(features, classes)
    expected = features.toarray() @ fitted.weights.T + fitted.intercepts
    assert_allclose(margins(fitted, features), expected, atol=1e-5)


def test_a_class_without_members_is_far_from_every_row(features: csr_array, classes: csr_array) -> None:
    fitted = fit_machines(features, classes)
    assert (margins(fitted, features)[:, 3] < -0.5).all()


def test_rows_of_weight_zero_are_as_good_as_absent(features: csr_array, classes: csr_array) -> None:
    weights = np.ones(150, np.float32)
    weights[100:] = 0
    options = {"tolerance": 1e-6, "epochs": 20_000}
    fitted = fit_machines(features, classes, row_weights=weights, **options)
    expected = fit_machines(features[:100], classes[:100], **options)
    assert_allclose(fitted.weights, expected.weights, atol=1e-4)


def test_neither_threads_nor_other_classes_change_a_bit(features: csr_array, classes: csr_array) -> None:
    one, many = fit_machines(features, classes, threads=1), fit_machines(features, classes, threads=4)
    assert_array_equal(one.weights, many.weights)
    assert_array_equal(fit_machines(features, classes[:, [1]]).weights[0], one.weights[1])
