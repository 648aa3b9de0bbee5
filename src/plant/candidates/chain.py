"""A linear-chain conditional random field over binary sparse features (Lafferty, McCallum and Pereira 2001).

    score(y | x) = starts[y_1] + sum_t sum_{f in x_t} weights[f, y_t] + sum_t transitions[y_{t-1}, y_t] + ends[y_n]
    P(y | x) = exp score(y | x) / Z(x)
    fitted:  the minimum of  - sum over sequences of ln P(y | x) + l1 |w| + l2 w . w     (c1 and c2 of CRFsuite)

Z and the marginals come from a forward and a backward pass over probabilities that are scaled at each token. The
gradient of a feature's weights is the sum of P(tag) - [tag is right] over the tokens that have it; it is gathered
feature by feature, so that threads share no sums and any number of them gives the same bits.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int8, Int32, Int64
from numba import njit
from numpy.typing import NDArray

from plant.candidates.quasi_newton import minimise
from plant.types import Progress, silent

BLOCKS = 16  # of work: more than threads, so that none waits long; a fixed number, for sums in a fixed order


@dataclass(frozen=True)
class Chain:
    """Weights of features and of neighbouring tags; a transition that is not allowed has minus infinity."""

    weights: Float32[np.ndarray, "feature tag"]
    transitions: Float32[np.ndarray, "tag tag"]  # from row to column
    starts: Float32[np.ndarray, "tag"]
    ends: Float32[np.ndarray, "tag"]


@dataclass(frozen=True)
class Sequences:
    """Tokens with the numbers of their features, parted into sequences."""

    columns: Int32[np.ndarray, "occurrence"]
    row_starts: Int64[np.ndarray, "token_and_end"]  # of each token in `columns`, and their number at the end
    starts: Int64[np.ndarray, "sequence_and_end"]  # of each sequence, in tokens, and their number at the end


def fit_chain(
    sequences: Sequences,
    tags: Int8[np.ndarray, "token"],
    *,
    n_features: int,
    n_tags: int,
    allowed: Bool[np.ndarray, "tag tag"] | None = None,
    allowed_starts: Bool[np.ndarray, "tag"] | None = None,
    allowed_ends: Bool[np.ndarray, "tag"] | None = None,
    seen_pairs_only: bool = False,
    l1: float = 0.05,
    l2: float = 0.02,
    iterations: int = 50,
    memory: int = 6,
    threads: int | None = None,
    progress: Progress = silent,
) -> Chain:
    """The chain that makes the tags likeliest.

    With `seen_pairs_only` a weight exists only where a fitted token of that tag has the feature, as in CRFsuite unless
    it is asked for all possible states; without, features can also speak against tags.
    """
    fences = _fences(n_tags, allowed, allowed_starts, allowed_ends)
    _check_tags(sequences, tags, fences)
    order, work = _work(sequences, tags, n_features, n_tags, seen_pairs_only)
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        run = _runner(pool)

        def evaluate(parameters: Float32[np.ndarray, "parameter"]) -> tuple[float, Float32[np.ndarray, "parameter"]]:
            return _evaluate(parameters, work, fences, l2, run)

        start = np.zeros((n_features + n_tags + 2) * n_tags, np.float32)
        parameters = minimise(evaluate, start, l1=l1, iterations=iterations, memory=memory, progress=progress)
    fitted = _chain(parameters, fences)
    weights = np.empty_like(fitted.weights)
    weights[order] = fitted.weights
    return replace(fitted, weights=weights)


def marginals(chain: Chain, sequences: Sequences) -> Float32[np.ndarray, "token tag"]:
    """P(tag | sequence) of each token."""
    return _read(chain, sequences, np.zeros(0, np.int8))[0]


def log_likelihood(chain: Chain, sequences: Sequences, tags: Int8[np.ndarray, "token"]) -> float:
    """ln P(tags), summed over the sequences."""
    return float(_read(chain, sequences, tags)[1].sum())


def best_paths(chain: Chain, sequences: Sequences) -> Int8[np.ndarray, "token"]:
    """The likeliest tags of each sequence (Viterbi); of equally likely ones that of the lowest number."""
    paths = np.zeros(len(sequences.row_starts) - 1, np.int8)
    _find_paths(_arrays(sequences), _arrays(chain), paths, _unrolled(chain))
    return paths


def _read(
    chain: Chain, sequences: Sequences, tags: NDArray[np.int8]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    n_sequences, moves = len(sequences.starts) - 1, np.zeros(chain.transitions.shape)
    found, logs = np.zeros((len(sequences.row_starts) - 1, len(chain.starts)), np.float32), np.zeros(n_sequences)
    _read_sequences(_arrays(sequences), _arrays(chain), tags, (0, n_sequences), found, logs, moves, _unrolled(chain))
    return found, logs


def _arrays(thing: Any) -> Any:
    """The fields of a dataclass as a tuple, which kernels can take."""
    return tuple(getattr(thing, field.name) for field in fields(thing))


def _unrolled(chain: Chain) -> tuple[int, ...]:
    """The tags as a tuple: its length is known when kernels are compiled, so that loops over tags are unrolled."""
    return tuple(range(len(chain.starts)))


@dataclass(frozen=True)
class _Fences:
    """0 for what is allowed, minus infinity for what is not."""

    transitions: Float32[np.ndarray, "tag tag"]
    starts: Float32[np.ndarray, "tag"]
    ends: Float32[np.ndarray, "tag"]


def _fences(n_tags: int, *allowed: NDArray[np.bool_] | None) -> _Fences:
    shapes = ((n_tags, n_tags), (n_tags,), (n_tags,))
    given = [np.ones(shape, bool) if mask is None else mask for shape, mask in zip(shapes, allowed, strict=True)]
    return _Fences(*(np.where(mask, np.float32(0), np.float32(-np.inf)) for mask in given))


def _check_tags(sequences: Sequences, tags: NDArray[np.int8], fences: _Fences) -> None:
    firsts, lasts = _firsts_and_lasts(sequences)
    after = np.setdiff1d(np.arange(len(tags)), firsts)
    met = (fences.transitions[tags[after - 1], tags[after]], fences.starts[tags[firsts]], fences.ends[tags[lasts]])
    if not all(np.isfinite(part).all() for part in met):
        raise ValueError("some sequence has a start, a transition or an end that is not allowed")


def _firsts_and_lasts(sequences: Sequences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last token of the sequences that have any."""
    filled = np.diff(sequences.starts) > 0
    return sequences.starts[:-1][filled], sequences.starts[1:][filled] - 1


@dataclass(frozen=True)
class _Work:
    """What every evaluation reads: features numbered by falling frequency, so that the frequent ones lie together."""

    sequences: Sequences
    tags: Int8[np.ndarray, "token"]
    feature_starts: Int64[np.ndarray, "feature_and_end"]  # of each feature in `tokens`
    tokens: Int32[np.ndarray, "occurrence"]
    seen: Bool[np.ndarray, "feature tag"] | None
    sequence_blocks: NDArray[np.int64]
    feature_blocks: NDArray[np.int64]


def _work(
    sequences: Sequences, tags: NDArray[np.int8], n_features: int, n_tags: int, seen_pairs_only: bool
) -> tuple[NDArray[np.int64], _Work]:
    """The features in their new order, and the work."""
    counts = np.bincount(sequences.columns, minlength=n_features)
    order = np.argsort(-counts, kind="stable")
    numbers = np.empty(n_features, np.int32)
    numbers[order] = np.arange(n_features, dtype=np.int32)
    renumbered = replace(sequences, columns=numbers[sequences.columns])
    starts = np.concatenate([[0], np.cumsum(counts[order])])
    tokens = np.empty(len(sequences.columns), np.int32)
    _transpose(renumbered.columns, renumbered.row_starts, starts.copy(), tokens)
    seen = _seen(starts, tokens, tags, np.zeros((n_features, n_tags), bool)) if seen_pairs_only else None
    return order, _Work(renumbered, tags, starts, tokens, seen, _blocks(sequences.starts), _blocks(starts))


def _blocks(starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Borders between items of which each begins at one of `starts`, so that all blocks are about as long."""
    borders = np.searchsorted(starts[1:], starts[-1] * np.arange(1, BLOCKS) / BLOCKS)
    return np.concatenate([[0], borders, [len(starts) - 1]]).astype(np.int64)


Run = Callable[[Callable[[int, int, int], None], NDArray[np.int64]], None]


def _runner(pool: ThreadPoolExecutor) -> Run:
    """Calls something with number, first and last item of each block, in threads."""

    def run(call: Callable[[int, int, int], None], blocks: NDArray[np.int64]) -> None:
        for _ in pool.map(call, range(len(blocks) - 1), blocks[:-1].tolist(), blocks[1:].tolist()):
            pass

    return run


def _evaluate(
    parameters: Float32[np.ndarray, "parameter"], work: _Work, fences: _Fences, l2: float, run: Run
) -> tuple[float, Float32[np.ndarray, "parameter"]]:
    """Minus the log-likelihood plus l2 w . w, and the gradient of both."""
    chain, gradient = _chain(parameters, fences), np.empty_like(parameters)
    weights, transitions, starts, ends = _cut(gradient, len(chain.starts))
    residuals, logs, moves = _read_blocks(chain, work, run)
    _gather_blocks(work, residuals, weights, run)
    firsts, lasts = _firsts_and_lasts(work.sequences)
    transitions[:] = moves
    starts[:], ends[:] = residuals[firsts].sum(0, dtype=np.float64), residuals[lasts].sum(0, dtype=np.float64)
    square = _decay(parameters, gradient, 2 * l2)
    for part, fence in zip((transitions, starts, ends), _arrays(fences), strict=True):
        part[np.isinf(fence)] = 0
    return l2 * square - float(logs.sum()), gradient


def _read_blocks(
    chain: Chain, work: _Work, run: Run
) -> tuple[Float32[np.ndarray, "token tag"], NDArray[np.float64], NDArray[np.float64]]:
    """Of each token P(tag) - [tag is right], of each sequence ln P(tags), and expected less seen transitions."""
    sequences, unrolled, n_tags = work.sequences, _unrolled(chain), len(chain.starts)
    residuals, logs = np.empty((len(work.tags), n_tags), np.float32), np.zeros(len(sequences.starts) - 1)
    moves = np.zeros((len(work.sequence_blocks) - 1, n_tags, n_tags))
    given, parts = _arrays(sequences), _arrays(chain)

    def read(block: int, first: int, last: int) -> None:
        _read_sequences(given, parts, work.tags, (first, last), residuals, logs, moves[block], unrolled)

    run(read, work.sequence_blocks)
    return residuals, logs, moves.sum(0)


def _gather_blocks(work: _Work, residuals: NDArray[np.float32], gradient: NDArray[np.float32], run: Run) -> None:
    unrolled = tuple(range(residuals.shape[1]))

    def gather(block: int, first: int, last: int) -> None:
        _gather(work.feature_starts, work.tokens, residuals, first, last, gradient, unrolled)

    run(gather, work.feature_blocks)
    if work.seen is not None:
        gradient *= work.seen


def _cut(flat: NDArray[np.float32], n_tags: int) -> tuple[NDArray[np.float32], ...]:
    """Weights, transitions, starts and ends, which lie one after the other."""
    rest = flat[-(n_tags + 2) * n_tags :].reshape(n_tags + 2, n_tags)
    return flat[: -rest.size].reshape(-1, n_tags), rest[:n_tags], rest[n_tags], rest[n_tags + 1]


def _chain(parameters: NDArray[np.float32], fences: _Fences) -> Chain:
    weights, transitions, starts, ends = _cut(parameters, len(fences.starts))
    return Chain(weights, transitions + fences.transitions, starts + fences.starts, ends + fences.ends)


@njit(cache=True, nogil=True)
def _transpose(columns, row_starts, free, tokens):  # type: ignore[no-untyped-def]
    """The tokens of each feature, in their order; `free` has the first free place of each feature."""
    for token in range(len(row_starts) - 1):
        for place in range(row_starts[token], row_starts[token + 1]):
            column = columns[place]
            tokens[free[column]] = token
            free[column] += 1


@njit(cache=True, nogil=True)
def _seen(starts, tokens, tags, seen):  # type: ignore[no-untyped-def]
    for feature in range(len(starts) - 1):
        for place in range(starts[feature], starts[feature + 1]):
            seen[feature, tags[tokens[place]]] = True
    return seen


@njit(cache=True, nogil=True)
def _gather(starts, tokens, residuals, first, last, gradient, unrolled):  # type: ignore[no-untyped-def]
    """Sum the rows of each feature's tokens; many small terms: with 64 bits."""
    sums = np.zeros(len(unrolled))
    for feature in range(first, last):
        sums[:] = 0
        for place in range(starts[feature], starts[feature + 1]):
            token = tokens[place]
            for tag in range(len(unrolled)):
                sums[tag] += residuals[token, tag]
        for tag in range(len(unrolled)):
            gradient[feature, tag] = sums[tag]


@njit(cache=True, nogil=True)
def _decay(parameters, gradient, factor):  # type: ignore[no-untyped-def]
    """Add the factor times the parameters to the gradient; the sum of their squares."""
    square, factor = 0.0, np.float32(factor)
    for i in range(len(parameters)):
        gradient[i] += factor * parameters[i]
        square += np.float64(parameters[i]) * np.float64(parameters[i])
    return square


@njit(cache=True, nogil=True)
def _add_rows(columns, first, last, weights, sums, unrolled):  # type: ignore[no-untyped-def]
    """The scores of a token's tags without its neighbours."""
    for tag in range(len(unrolled)):
        sums[tag] = 0
    for place in range(first, last):
        column = columns[place]
        for tag in range(len(unrolled)):
            sums[tag] += weights[column, tag]


@njit(cache=True, nogil=True, error_model="numpy")
def _read_sequences(sequences, chain, tags, block, found, logs, moves, unrolled):  # type: ignore[no-untyped-def]
    """P(tag) of the tokens of a block of sequences, less 1 for the right tag where `tags` are known."""
    columns, row_starts, sequence_starts = sequences
    weights, transitions, starts, ends = chain
    first, last = block
    longest = 0
    for sequence in range(first, last):
        longest = max(longest, sequence_starts[sequence + 1] - sequence_starts[sequence])
    sums = np.empty((longest, len(unrolled)), np.float32)
    factors, forward = np.empty((longest, len(unrolled))), np.empty((longest, len(unrolled)))
    steps, begins = np.exp(transitions.astype(np.float64)), np.exp(starts.astype(np.float64))
    finishes = np.exp(ends.astype(np.float64))
    for sequence in range(first, last):
        start, end = sequence_starts[sequence], sequence_starts[sequence + 1]
        if start == end:
            continue
        for token in range(start, end):
            _add_rows(columns, row_starts[token], row_starts[token + 1], weights, sums[token - start], unrolled)
        length = end - start
        logs[sequence] = -_go_forward(sums[:length], steps, begins, finishes, factors, forward, unrolled)
        _go_back(factors[:length], forward, steps, finishes, found[start:end], moves, unrolled)
        if len(tags):
            logs[sequence] += _take_right(sums[:length], chain, tags[start:end], found[start:end], moves)


@njit(cache=True, nogil=True, error_model="numpy")
def _go_forward(sums, steps, begins, finishes, factors, forward, unrolled):  # type: ignore[no-untyped-def]
    """ln Z, and of each token: P(tag | tokens up to here), and e^score of its tags divided by what they sum to.

    The best tag that can be reached has factor 1 before the division; only what lies 700 below it is lost.
    """
    n_tags, log = len(unrolled), 0.0
    reached = np.empty(n_tags)
    for here in range(len(sums)):
        best = np.float32(-np.inf)
        for tag in range(n_tags):
            reached[tag] = begins[tag] if here == 0 else 0.0
        if here > 0:
            for before in range(n_tags):
                for tag in range(n_tags):
                    reached[tag] += forward[here - 1, before] * steps[before, tag]
        for tag in range(n_tags):
            if here == len(sums) - 1:
                reached[tag] *= finishes[tag]
            if reached[tag] > 0:
                best = max(best, sums[here, tag])
        total = 0.0
        for tag in range(n_tags):
            factors[here, tag] = np.exp(np.float64(sums[here, tag] - best)) if reached[tag] > 0 else 0.0
            forward[here, tag] = reached[tag] * factors[here, tag]
            total += forward[here, tag]
        for tag in range(n_tags):
            forward[here, tag] /= total
            factors[here, tag] /= total
        log += np.log(total) + best
    return log


@njit(cache=True, nogil=True)
def _go_back(factors, forward, steps, finishes, found, moves, unrolled):  # type: ignore[no-untyped-def]
    """P(tag) of each token; expected transitions are added to `moves`."""
    n_tags, last = len(unrolled), len(factors) - 1
    behind, reached = np.ones(n_tags), np.empty(n_tags)
    for here in range(last, -1, -1):
        for tag in range(n_tags):
            found[here, tag] = forward[here, tag] * behind[tag]
            reached[tag] = factors[here, tag] * behind[tag]
            if here == last:
                reached[tag] *= finishes[tag]
        if here == 0:
            break
        for before in range(n_tags):
            ahead = 0.0
            for tag in range(n_tags):
                share = steps[before, tag] * reached[tag]
                ahead += share
                moves[before, tag] += forward[here - 1, before] * share
            behind[before] = ahead


@njit(cache=True, nogil=True)
def _take_right(sums, chain, tags, found, moves):  # type: ignore[no-untyped-def]
    """The score of the right tags, which are taken away from what was expected."""
    _, transitions, starts, ends = chain
    score = np.float64(starts[tags[0]]) + ends[tags[-1]]
    for here in range(len(tags)):
        score += sums[here, tags[here]]
        found[here, tags[here]] -= 1
        if here > 0:
            score += transitions[tags[here - 1], tags[here]]
            moves[tags[here - 1], tags[here]] -= 1
    return score


@njit(cache=True, nogil=True)
def _find_paths(sequences, chain, paths, unrolled):  # type: ignore[no-untyped-def]
    columns, row_starts, sequence_starts = sequences
    weights, transitions, starts, ends = chain
    n_tags = len(unrolled)
    scores, reached, sums = np.empty(n_tags), np.empty(n_tags), np.empty(n_tags, np.float32)
    origins = np.zeros((len(paths), n_tags), np.int8)
    for sequence in range(len(sequence_starts) - 1):
        start, end = sequence_starts[sequence], sequence_starts[sequence + 1]
        if start == end:
            continue
        for token in range(start, end):
            _add_rows(columns, row_starts[token], row_starts[token + 1], weights, sums, unrolled)
            for tag in range(n_tags):
                reached[tag] = starts[tag] if token == start else -np.inf
                if token > start:
                    for before in range(n_tags):
                        score = scores[before] + transitions[before, tag]
                        if score > reached[tag]:
                            reached[tag] = score
                            origins[token, tag] = before
            for tag in range(n_tags):
                scores[tag] = reached[tag] + sums[tag]
        best = 0
        for tag in range(n_tags):
            scores[tag] += ends[tag]
            if scores[tag] > scores[best]:
                best = tag
        for token in range(end - 1, start - 1, -1):
            paths[token] = best
            best = origins[token, best]
