"""The linear-chain CRF beside a sum over all tag sequences, and its fit beside scipy's."""

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from plant.candidates import chain as module
from plant.candidates.chain import Chain, Sequences, best_paths, fit_chain, log_likelihood, marginals
from plant.candidates.quasi_newton import minimise

N_TAGS, N_FEATURES = 3, 12
STARTS = np.array([0, 4, 4, 5, 9])  # one sequence is empty, one has a single token


@pytest.fixture
def sequences() -> Sequences:
    random = np.random.default_rng(1)
    sizes = np.array([3, 0, 2, 4, 1, 3, 3, 2, 5])  # a token without features is among them
    columns = random.integers(0, N_FEATURES - 1, sizes.sum()).astype(np.int32)  # no token has the last feature
    return Sequences(columns, np.concatenate([[0], np.cumsum(sizes)]), STARTS)


@pytest.fixture
def tags() -> np.ndarray:
    return np.array([0, 2, 1, 0, 2, 1, 1, 2, 2], np.int8)


@pytest.fixture
def chain() -> Chain:
    random = np.random.default_rng(2)
    shapes = ((N_FEATURES, N_TAGS), (N_TAGS, N_TAGS), (N_TAGS,), (N_TAGS,))
    weights, transitions, starts, ends = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    transitions[0, 1] = starts[1] = -np.inf
    return Chain(weights, transitions, starts, ends)


def score(chain: Chain, sequences: Sequences, start: int, path: tuple[int, ...]) -> float:
    """The formula on top of the module, term by term."""
    total = float(chain.starts[path[0]]) + float(chain.ends[path[-1]])
    for place, tag in enumerate(path):
        first, last = sequences.row_starts[start + place : start + place + 2]
        total += sum(float(chain.weights[column, tag]) for column in sequences.columns[first:last])
        total += float(chain.transitions[path[place - 1], tag]) if place else 0.0
    return total


def every_path(chain: Chain, sequences: Sequences) -> list[tuple[int, list[tuple[int, ...]], np.ndarray]]:
    """Of each sequence that is not empty: first token, all paths, their probabilities' logarithms."""
    found = []
    for start, end in zip(sequences.starts[:-1], sequences.starts[1:], strict=True):
        if start < end:
            paths = list(product(range(N_TAGS), repeat=end - start))
            scores = np.array([score(chain, sequences, start, path) for path in paths])
            found.append((int(start), paths, scores - np.logaddexp.reduce(scores)))
    return found


def test_marginals_are_sums_over_all_paths(chain: Chain, sequences: Sequences) -> None:
    expected = np.zeros((STARTS[-1], N_TAGS))
    for start, paths, logs in every_path(chain, sequences):
        for path, log in zip(paths, logs, strict=True):
            expected[range(start, start + len(path)), path] += np.exp(log)
    assert_allclose(marginals(chain, sequences), expected, atol=1e-6)


def test_the_likelihood_is_a_share_of_all_paths(chain: Chain, sequences: Sequences, tags: np.ndarray) -> None:
    expected = sum(
        logs[paths.index(tuple(tags[start : start + len(paths[0])].tolist()))]
        for start, paths, logs in every_path(chain, sequences)
    )
    assert_allclose(log_likelihood(chain, sequences, tags), expected, rtol=1e-6)


def test_the_best_paths_are_the_likeliest_of_all(chain: Chain, sequences: Sequences) -> None:
    expected = np.concatenate([paths[logs.argmax()] for _, paths, logs in every_path(chain, sequences)])
    assert_array_equal(best_paths(chain, sequences), expected)


@pytest.mark.parametrize("factor", [1, 300])
def test_large_scores_neither_overflow_nor_vanish(chain: Chain, sequences: Sequences, factor: int) -> None:
    large = Chain(chain.weights * factor, chain.transitions, chain.starts, chain.ends)
    assert_allclose(marginals(large, sequences).sum(1), 1, atol=1e-6)


def evaluation(sequences: Sequences, tags: np.ndarray, l2: float):  # type: ignore[no-untyped-def]
    """Value and gradient of what is minimised, for parameters in the order of the features as given."""
    fences = module._fences(N_TAGS, None, None, None)
    order, work = module._work(sequences, tags, N_FEATURES, N_TAGS, False)

    def run(call, blocks):  # type: ignore[no-untyped-def]
        for block, (first, last) in enumerate(pairwise(blocks)):
            call(block, int(first), int(last))

    def evaluate(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        permuted = np.array(parameters, np.float32)
        rows = permuted[: N_FEATURES * N_TAGS].reshape(N_FEATURES, N_TAGS)
        rows[:] = rows[order]
        value, gradient = module._evaluate(permuted, work, fences, l2, run)
        rows = gradient[: N_FEATURES * N_TAGS].reshape(N_FEATURES, N_TAGS)
        rows[order] = rows.copy()
        return value, gradient

    return evaluate


def test_the_gradient_is_that_of_finite_differences(sequences: Sequences, tags: np.ndarray) -> None:
    evaluate = evaluation(sequences, tags, 0.3)
    parameters = np.random.default_rng(3).normal(size=(N_FEATURES + N_TAGS + 2) * N_TAGS).astype(np.float32)
    expected, width = np.zeros(len(parameters)), np.float32(2.0**-6)
    for place in range(len(parameters)):
        high, low = parameters.copy(), parameters.copy()
        high[place] += width
        low[place] -= width
        expected[place] = (evaluate(high)[0] - evaluate(low)[0]) / (float(high[place]) - float(low[place]))
    assert_allclose(evaluate(parameters)[1], expected, atol=2e-3)


@pytest.mark.parametrize("l1", [0.0, 0.1])
def test_the_fit_is_the_optimum_that_scipy_finds(sequences: Sequences, tags: np.ndarray, l1: float) -> None:
    evaluate = evaluation(sequences, tags, 0.05)

    def parted(both: np.ndarray) -> tuple[float, np.ndarray]:
        """w = high - low, both not negative: l1 |w| is smooth then."""
        high, low = np.split(both, 2)
        value, gradient = evaluate(high - low)
        return value + l1 * both.sum(), np.concatenate([gradient, -gradient]).astype(np.float64) + l1

    size = (N_FEATURES + N_TAGS + 2) * N_TAGS
    best = minimize(parted, np.zeros(2 * size), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * size),
                    options={"ftol": 1e-14, "gtol": 1e-7, "maxiter": 5000})  # fmt: skip
    fitted = fit_chain(sequences, tags, n_features=N_FEATURES, n_tags=N_TAGS, l1=l1, l2=0.05, iterations=500)
    parts = (fitted.weights, fitted.transitions, fitted.starts, fitted.ends)
    parameters = np.concatenate([part.ravel() for part in parts])
    assert_allclose(evaluate(parameters)[0] + l1 * np.abs(parameters).sum(), best.fun, rtol=2e-5)
    assert_allclose(parameters, np.subtract(*np.split(best.x, 2)), atol=0.02)


def test_a_weight_that_is_worth_less_than_its_l1_is_exactly_zero() -> None:
    centre = np.array([3.0, -0.5, -2.0, 0.2], np.float32)

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(((x - centre) ** 2).sum()) / 2, x - centre

    found = minimise(evaluate, np.zeros(4, np.float32), l1=1.0)
    assert_allclose(found, [2, 0, -1, 0], atol=1e-5)
    assert found[1] == found[3] == 0


def made_up(n_tokens: int) -> tuple[Sequences, np.ndarray]:
    """Tokens of six features; tags follow a chain."""
    random = np.random.default_rng(4)
    columns = random.integers(0, 200, 6 * n_tokens).astype(np.int32)
    starts = np.unique(np.concatenate([[0], random.integers(0, n_tokens, n_tokens // 12), [n_tokens]]))
    given = Sequences(columns, np.arange(0, 6 * n_tokens + 1, 6), starts)
    shapes = ((200, 5), (5, 5), (5,), (5,))
    truth = Chain(*(random.normal(size=shape).astype(np.float32) for shape in shapes))
    return given, best_paths(truth, given)


def test_threads_change_no_bit() -> None:
    given, tags = made_up(3000)
    one, four = (fit_chain(given, tags, n_features=200, n_tags=5, iterations=8, threads=n) for n in (1, 4))
    for name in ("weights", "transitions", "starts", "ends"):
        assert_array_equal(getattr(one, name), getattr(four, name))


def test_a_chain_finds_the_tags_of_sequences_that_it_was_not_fitted_on() -> None:
    given, tags = made_up(12_000)
    half = len(given.starts) // 2
    middle = given.starts[half]
    fitted_on = Sequences(given.columns[: 6 * middle], given.row_starts[: middle + 1], given.starts[: half + 1])
    fitted = fit_chain(fitted_on, tags[:middle], n_features=200, n_tags=5)
    right = (best_paths(fitted, given) == tags)[middle:].mean()
    frequent = np.bincount(tags[:middle]).argmax()
    assert right > 0.85 > (tags[middle:] == frequent).mean() + 0.3


def test_what_is_not_allowed_is_never_found() -> None:
    given, tags = made_up(1000)
    tags = np.where(tags == 3, 0, tags).astype(np.int8)
    allowed, outer = np.ones((5, 5), bool), np.ones(5, bool)
    allowed[:, 3] = outer[3] = False
    fitted = fit_chain(given, tags, n_features=200, n_tags=5, allowed=allowed, allowed_starts=outer, iterations=10)
    assert np.isneginf(fitted.transitions[:, 3]).all()
    assert not marginals(fitted, given)[:, 3].any()
    assert 3 not in best_paths(fitted, given)


def test_tags_that_are_not_allowed_are_refused(sequences: Sequences, tags: np.ndarray) -> None:
    allowed = np.ones((N_TAGS, N_TAGS), bool)
    allowed[0, 2] = False
    with pytest.raises(ValueError, match="not allowed"):
        fit_chain(sequences, tags, n_features=N_FEATURES, n_tags=N_TAGS, allowed=allowed)


def test_pairs_that_were_not_seen_have_no_weight(sequences: Sequences, tags: np.ndarray) -> None:
    seen = np.zeros((N_FEATURES, N_TAGS), bool)
    owners = np.repeat(np.arange(len(tags)), np.diff(sequences.row_starts))
    seen[sequences.columns, tags[owners]] = True
    fitted = fit_chain(sequences, tags, n_features=N_FEATURES, n_tags=N_TAGS, seen_pairs_only=True, l1=0.0)
    assert_array_equal(fitted.weights != 0, seen)
