"""Blending of systems by weights that held-out notes decide."""

import numpy as np

from plant.evaluate.blend import blended, fit_blend


def systems() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A good system, one that knows nothing, and the truth."""
    random = np.random.default_rng(0)
    logits = random.normal(-2, 2, (60, 20))
    truth = (random.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    return (1 / (1 + np.exp(-logits))).astype(np.float32), random.random(logits.shape).astype(np.float32), truth


def test_the_system_that_knows_gets_the_weight() -> None:
    good, useless, truth = systems()
    weights, shift = fit_blend([good, useless], truth)
    assert abs(weights[0] - 1) < 0.15
    assert 0 <= weights[1] < 0.1
    assert abs(shift) < 0.3


def test_a_system_with_weight_one_is_itself() -> None:
    good, useless, _ = systems()
    np.testing.assert_allclose(blended([good, useless], np.array([1.0, 0.0]), 0.0), good, atol=1e-6)


def test_no_weight_is_negative() -> None:
    good, _, truth = systems()
    weights, _ = fit_blend([good, 1 - good], truth)
    assert (weights >= 0).all()
