"""Support vector machines of squared hinge loss equal scikit-learn's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, random_array
from sklearn.svm import LinearSVC

from plant.train.hinge import fit_hinge


@pytest.fixture(scope="module")
def features() -> csr_array:
    return csr_array(random_array((120, 40), density=0.2, rng=np.random.default_rng(3), dtype=np.float32))


@pytest.fixture(scope="module")
def targets() -> csr_array:
    dense = np.random.default_rng(4).random((120, 4)) < [0.5, 0.1, 0.02, 0.0]
    dense[7, 2] = True
    return csr_array(dense.astype(np.float32))


@pytest.mark.parametrize("cost", [0.1, 1.0, 20.0])
def test_weights_are_those_of_liblinear(features: csr_array, targets: csr_array, cost: float) -> None:
    fitted = fit_hinge(features, targets, cost=cost, tolerance=1e-7, max_passes=20_000)
    for label in range(3):
        expected = LinearSVC(C=cost, loss="squared_hinge", tol=1e-9, max_iter=50_000, random_state=0)
        expected.fit(features, targets.toarray()[:, label])
        assert_allclose(fitted.weights.toarray()[label], expected.coef_[0], atol=2e-5)
        assert_allclose(fitted.intercepts[label], expected.intercept_[0], atol=2e-5)


def test_a_label_without_positives_has_no_weights(features: csr_array, targets: csr_array) -> None:
    fitted = fit_hinge(features, targets)
    assert fitted.intercepts[3] == -np.inf
    assert not fitted.weights.toarray()[3].any()


def test_small_weights_are_dropped(features: csr_array, targets: csr_array) -> None:
    whole, pruned = (fit_hinge(features, targets, prune=prune).weights.toarray() for prune in (0.0, 0.1))
    assert_array_equal(pruned, np.where(np.abs(whole) > 0.1, whole, 0))
    assert (pruned != whole).any()


def test_neighbours_change_nothing(features: csr_array, targets: csr_array) -> None:
    together = fit_hinge(features, targets).weights.toarray()
    alone = [fit_hinge(features, targets[:, [label]]).weights.toarray()[0] for label in range(4)]
    assert_array_equal(together, np.stack(alone))
