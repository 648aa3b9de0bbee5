"""Blending of systems by weights that held-out notes decide."""

import numpy as np
import pytest

from plant.evaluate.choosing import blend as blending
from plant.evaluate.choosing.blend import Blend, blended, fit_blend

N_LABELS = 20
NOTHING_KNOWN = np.zeros(N_LABELS, np.float32)
RARE = np.linspace(-6, -1, N_LABELS).astype(np.float32)


def chances(logits: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def systems() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A good system, one that knows nothing, and the truth."""
    random = np.random.default_rng(0)
    logits = random.normal(-2, 2, (60, N_LABELS))
    truth = (random.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    return chances(logits), random.random(logits.shape).astype(np.float32), truth


def test_the_system_that_knows_gets_the_weight() -> None:
    good, useless, truth = systems()
    blend = fit_blend([good, useless], NOTHING_KNOWN, truth)
    assert abs(blend.weights[0] - 1) < 0.15
    assert 0 <= blend.weights[1] < 0.1
    assert abs(blend.shift) < 0.3


def test_a_system_with_weight_one_is_itself() -> None:
    good, useless, _ = systems()
    alone = Blend(np.array([1.0, 0.0], np.float32), trust=1.0, shift=0.0)
    np.testing.assert_allclose(blended([good, useless], RARE, alone), good, atol=1e-6)


def test_a_system_that_knows_frequencies_only_changes_nothing() -> None:
    good, _, _ = systems()
    ignorant = np.tile(chances(RARE), (len(good), 1))
    both = Blend(np.array([1.0, 5.0], np.float32), trust=1.0, shift=0.0)
    np.testing.assert_allclose(blended([good, ignorant], RARE, both), good, atol=1e-5)


def test_a_label_that_one_system_does_not_know_is_left_to_the_other() -> None:
    good, useless, _ = systems()
    known = np.ones((2, N_LABELS), bool)
    known[1, 7:] = False
    blend = Blend(np.array([0.6, 0.8], np.float32), trust=0.9, shift=-0.5)
    found = blended([good, useless], RARE, blend, known)
    np.testing.assert_allclose(found[:, 7:], good[:, 7:], atol=1e-5)
    np.testing.assert_array_equal(found[:, :7], blended([good, useless], RARE, blend)[:, :7])


def test_an_unbelieved_system_decides_where_no_other_knows_the_label() -> None:
    good, useless, _ = systems()
    known = np.array([[False] * N_LABELS, [True] * N_LABELS])
    blend = Blend(np.array([1.0, 0.0], np.float32), trust=1.0, shift=0.0)
    np.testing.assert_allclose(blended([good, useless], RARE, blend, known), useless, atol=1e-5)


def test_no_weight_is_negative() -> None:
    good, _, truth = systems()
    assert (fit_blend([good, 1 - good], NOTHING_KNOWN, truth).weights >= 0).all()


def test_many_documents_are_fitted_by_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    good, useless, truth = systems()
    monkeypatch.setattr(blending, "PAIRS", truth.size // 3)
    some, whole = (fit_blend([good[::step], useless[::step]], RARE, truth[::step]) for step in (1, 3))
    np.testing.assert_allclose(some.weights, whole.weights, atol=1e-6)
