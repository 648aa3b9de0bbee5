"""Gradient boosted trees for a yes-or-no target, grown leaf by leaf over histograms (Friedman 2001; Ke et al. 2017).

    log-odds F(x) = base + sum over trees of value(leaf of x),      p = 1 / (1 + exp -F)
    of a row      g = w (p - y),  h = w p (1 - p)
    of a leaf     value = - rate G / (H + l2),   G, H = sums of g and h over its rows
    of a split    gain = GL^2 / (HL + l2) + GR^2 / (HR + l2) - G^2 / (H + l2)

The leaf whose best split gains most is split next, until there are `leaves`. Values are put into at most `bins` bins of
about as many rows each; of two new leaves the smaller one's histogram is counted, the other's is the difference.
Missing values (NaN) go to the side that gains more.

Every tree sees a share of the rows and of the features, drawn by hashes of seed, tree and the row's key or the
feature's number. Rows are taken in the order of their keys: where all keys differ, the order in which rows are given
changes no bit. One fit has one thread and holds no lock of Python, so that several can run in threads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64, UInt8
from numba import njit
from numpy.typing import NDArray

from plant.errors import ArtifactError
from plant.store.checks import check_finite, check_length, check_numbers, check_shape, check_starts
from plant.types import Progress, silent

MOST_BINS = 255
MISSING = 255  # the bin of NaN
LEAST_CURVATURE = 1e-3  # of a leaf's H: where p is nearly 0 or 1 a step would be all noise


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees; a row goes left where its value is not above the threshold."""

    feature: Int32[np.ndarray, "node"]  # -1 at a leaf
    threshold: Float32[np.ndarray, "node"]
    left: Int32[np.ndarray, "node"]
    right: Int32[np.ndarray, "node"]
    missing_left: Bool[np.ndarray, "node"]
    value: Float64[np.ndarray, "node"]  # 0 where it is no leaf
    gain: Float64[np.ndarray, "node"]  # 0 at a leaf
    starts: Int64[np.ndarray, "tree_and_end"]  # the roots, and the number of nodes at the end
    base: float
    n_features: int


def fit_trees(
    X: Float32[np.ndarray, "row feature"],
    y: Float32[np.ndarray, "row"] | Bool[np.ndarray, "row"],
    *,
    leaves: int = 31,
    rate: float = 0.06,
    rounds: int = 150,
    features: float = 0.6,
    rows: float = 0.8,
    l2: float = 3.0,
    least_rows: int = 30,
    bins: int = MOST_BINS,
    seed: int = 1,
    weights: Float32[np.ndarray, "row"] | None = None,
    keys: Int64[np.ndarray, "row"] | None = None,
    progress: Progress = silent,
) -> Trees:
    """Trees that tell rows with y = 1 from those with y = 0; without `keys` a row's key is its number."""
    if not 2 <= bins <= MOST_BINS:
        raise ValueError(f"bins are 2 to {MOST_BINS}, not {bins}")
    keys = np.arange(len(y)) if keys is None else keys
    order = np.argsort(keys, kind="stable")
    keys, truth = keys[order], y[order].astype(np.float64)
    importance = np.ones(len(y)) if weights is None else weights[order].astype(np.float64)
    edges = [_edges(X[:, feature], bins) for feature in range(X.shape[1])]
    binned = np.stack([_bin(X[order, feature], edge) for feature, edge in enumerate(edges)])
    n_bins = np.array([len(edge) + 1 for edge in edges], np.int64)
    base = _base(truth, importance)
    log_odds, n_drawn = np.full(len(y), base), max(1, round(features * X.shape[1]))
    grown: list[_Tree] = []
    for number in range(rounds):
        slopes = _slopes(log_odds, truth, importance)
        drawn_rows = _drawn_rows(keys, rows, np.uint64(seed), np.uint64(number))
        drawn_features = _drawn_features(X.shape[1], n_drawn, seed, number)
        tree = _Tree(*_grow(binned, n_bins, slopes, drawn_rows, drawn_features, leaves, rate, l2, least_rows))
        _add_values(binned, _arrays(tree), log_odds)
        grown.append(tree)
        progress("trees", number + 1, rounds)
    return _joined(grown, edges, base, X.shape[1])


def log_odds(trees: Trees, X: Float32[np.ndarray, "row feature"]) -> Float64[np.ndarray, "row"]:
    """F(x) of each row."""
    if len(trees.feature) and X.shape[1] != trees.n_features:
        raise ArtifactError("the trees of the folder were grown over other features: make it again")
    found = np.full(len(X), trees.base)
    nodes = (trees.feature, trees.threshold, trees.left, trees.right, trees.missing_left, trees.value, trees.starts)
    _score(np.ascontiguousarray(X), *nodes, found)
    return found


def probabilities(trees: Trees, X: Float32[np.ndarray, "row feature"]) -> Float64[np.ndarray, "row"]:
    """P(y = 1) of each row."""
    return 1 / (1 + np.exp(-log_odds(trees, X)))


def gains(trees: Trees) -> Float64[np.ndarray, "feature"]:
    """What the splits by each feature gained, summed over all trees."""
    inner = trees.feature >= 0
    return np.bincount(trees.feature[inner], weights=trees.gain[inner], minlength=trees.n_features)


def pack(trees: Trees) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The trees as plain options and arrays."""
    parts = {field.name: getattr(trees, field.name) for field in fields(Trees)}
    options = {name: parts.pop(name) for name in ("base", "n_features")}
    return options, parts


def unpack(options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Trees:
    """The trees that `pack` took apart."""
    parts: dict[str, Any] = {**arrays, **options}
    trees = Trees(**parts)
    _check(trees)
    return trees


def _check(trees: Trees) -> None:
    """Refuse nodes that lead out of the table, or back: rows would be led around for ever."""
    nodes = len(trees.feature)
    check_starts("starts", trees.starts, nodes)
    if bool((np.diff(trees.starts) == 0).any()):
        raise ArtifactError("starts of the folder has a tree without a node: make it again")
    check_numbers("feature", trees.feature, trees.n_features, least=-1)
    inner = np.flatnonzero(trees.feature >= 0)
    for name, kinds in (("threshold", "f"), ("value", "f"), ("gain", "f"), ("missing_left", "b")):
        check_shape(name, getattr(trees, name), (nodes,), kinds)
    check_finite({"value": trees.value, "gain": trees.gain})
    if bool(np.isnan(trees.threshold).any()):  # infinite where missing values are parted from all others
        raise ArtifactError("threshold of the folder has values that are no numbers: make it again")
    for name in ("left", "right"):
        check_length(name, getattr(trees, name), nodes)
    for name in ("left", "right"):
        check_numbers(name, getattr(trees, name)[inner], nodes)
        if bool((getattr(trees, name)[inner] <= inner).any()):
            raise ArtifactError(f"{name} of the folder leads back to an earlier node: make it again")


def _arrays(thing: Any) -> Any:
    return tuple(getattr(thing, field.name) for field in fields(thing))


def _base(truth: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """The log-odds of the share of positives, kept finite where all rows agree."""
    share = np.clip(np.average(truth, weights=weights) if len(truth) else 0.5, 1e-7, 1 - 1e-7)
    return float(np.log(share / (1 - share)))


def _edges(values: NDArray[np.float32], bins: int) -> NDArray[np.float32]:
    """Rising thresholds: between all distinct values, or between bins of about as many rows each."""
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if len(distinct) > bins:
        # the bin of a value is the share of rows below its middle row: equal values stay together, whatever their order
        places = (np.cumsum(counts) - counts / 2) * bins / counts.sum()
        lower = np.flatnonzero(np.diff(np.floor(places)))
    else:
        lower = np.arange(max(0, len(distinct) - 1))
    return _between(distinct[lower], distinct[lower + 1])


def _between(lower: NDArray[np.float32], upper: NDArray[np.float32]) -> NDArray[np.float32]:
    """A threshold that parts two values: lower <= threshold < upper, also for infinite and neighbouring ones."""
    with np.errstate(invalid="ignore"):
        middle = (lower.astype(np.float64) / 2 + upper.astype(np.float64) / 2).astype(np.float32)
    return np.where((middle >= lower) & (middle < upper), middle, lower)


def _bin(values: NDArray[np.float32], edges: NDArray[np.float32]) -> UInt8[np.ndarray, "row"]:
    found = np.searchsorted(edges, values, side="left").astype(np.uint8)
    found[np.isnan(values)] = MISSING
    return found


def _drawn_features(n_features: int, n_drawn: int, seed: int, number: int) -> NDArray[np.int64]:
    hashes = _hashes(np.arange(n_features), np.uint64(seed), np.uint64(~number & 0xFFFFFFFF))
    return np.sort(np.argsort(hashes, kind="stable")[:n_drawn])


@dataclass(frozen=True)
class _Tree:
    """One tree over bins; its nodes are numbered from 0."""

    feature: NDArray[np.int32]
    bin: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    value: NDArray[np.float64]
    gain: NDArray[np.float64]


def _joined(grown: list[_Tree], edges: list[NDArray[np.float32]], base: float, n_features: int) -> Trees:
    starts = np.cumsum([0, *(len(tree.feature) for tree in grown)])

    def join(name: str, kind: Any) -> NDArray[Any]:
        return np.concatenate([np.zeros(0, kind), *(getattr(tree, name) for tree in grown)]).astype(kind)

    def children(name: str) -> NDArray[np.int32]:
        moved = [getattr(tree, name) + start for tree, start in zip(grown, starts, strict=False)]
        return np.concatenate([np.zeros(0, np.int32), *moved]).astype(np.int32)

    feature, bins = join("feature", np.int32), join("bin", np.int64)
    # what lies in the last bin goes left as well where a split parts missing values from all others
    above = [np.append(edge, np.float32(np.inf)) for edge in edges]
    first = np.cumsum([0, *map(len, above)])
    every = np.concatenate([np.zeros(1, np.float32), *above])
    threshold = np.where(feature >= 0, every[1:][np.where(feature >= 0, first[feature] + bins, 0)], np.float32(0))
    return Trees(
        feature, threshold.astype(np.float32), children("left"), children("right"), join("missing_left", bool),
        join("value", np.float64), join("gain", np.float64), starts.astype(np.int64), base, n_features,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _hash(key, seed, number):  # type: ignore[no-untyped-def]
    """64 bits that look random (splitmix64 over the three numbers)."""
    mixed = np.uint64(0)
    for part in (seed, number, key):
        mixed = (mixed ^ part) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


@njit(cache=True, nogil=True)
def _hashes(keys, seed, number):  # type: ignore[no-untyped-def]
    found = np.empty(len(keys), np.uint64)
    for i in range(len(keys)):
        found[i] = _hash(np.uint64(keys[i]), seed, number)
    return found


@njit(cache=True, nogil=True)
def _drawn_rows(keys, share, seed, number):  # type: ignore[no-untyped-def]
    """The rows of a tree: each with the chance `share`; all of them where none would be left."""
    drawn = np.empty(len(keys), np.int32)
    count = 0
    for row in range(len(keys)):
        if share >= 1 or (_hash(np.uint64(keys[row]), seed, number) >> np.uint64(11)) * 2.0**-53 < share:
            drawn[count] = row
            count += 1
    return drawn[:count] if count else np.arange(len(keys)).astype(np.int32)


@njit(cache=True, nogil=True)
def _slopes(log_odds, truth, weights):  # type: ignore[no-untyped-def]
    """g and h of each row."""
    slopes = np.empty((len(truth), 2))
    for row in range(len(truth)):
        p = 1 / (1 + np.exp(-log_odds[row]))
        slopes[row, 0] = weights[row] * (p - truth[row])
        slopes[row, 1] = weights[row] * p * (1 - p)
    return slopes


@njit(cache=True, nogil=True)
def _count(binned, slopes, rows, features, sums, counts):  # type: ignore[no-untyped-def]
    """The histograms of a leaf's rows: sums of g and h, and numbers of rows, per feature and bin."""
    here = np.empty((len(rows), 2))
    for i in range(len(rows)):
        here[i, 0], here[i, 1] = slopes[rows[i], 0], slopes[rows[i], 1]
    sums[:] = 0
    counts[:] = 0
    for f in range(len(features)):
        column, total, number = binned[features[f]], sums[f], counts[f]
        for i in range(len(rows)):
            place = column[rows[i]]
            total[place, 0] += here[i, 0]
            total[place, 1] += here[i, 1]
            number[place] += 1


@njit(cache=True, nogil=True)
def _take_away(sums, counts, other_sums, other_counts):  # type: ignore[no-untyped-def]
    """The histograms of a leaf without those of one of the two leaves that it is split into."""
    for f in range(counts.shape[0]):
        for place in range(counts.shape[1]):
            sums[f, place, 0] -= other_sums[f, place, 0]
            sums[f, place, 1] -= other_sums[f, place, 1]
            counts[f, place] -= other_counts[f, place]


@njit(cache=True, nogil=True, error_model="numpy")
def _best_split(histogram, features, n_bins, whole, n_rows, l2, least_rows, best):  # type: ignore[no-untyped-def]
    """Write gain, place of the feature, bin, side of missing values, and G, H, rows of the left side into `best`.

    Of equal gains the first is taken: lowest feature, lowest bin, missing values right.
    """
    sums, counts = histogram
    best[:] = 0
    unsplit = whole[0] ** 2 / (whole[1] + l2)
    for f in range(len(features)):
        last = n_bins[features[f]]
        lost = counts[f, MISSING]
        for missing_left in range(2 if lost else 1):
            g, h, n = 0.0, 0.0, 0
            if missing_left:
                g, h, n = sums[f, MISSING, 0], sums[f, MISSING, 1], lost
            # the last bin has nothing but missing values on its right
            for place in range(last if lost and not missing_left else last - 1):
                if counts[f, place] == 0:
                    continue
                g += sums[f, place, 0]
                h += sums[f, place, 1]
                n += counts[f, place]
                if n < least_rows or h < LEAST_CURVATURE:
                    continue
                if n_rows - n < least_rows or whole[1] - h < LEAST_CURVATURE:
                    break
                gain = g * g / (h + l2) + (whole[0] - g) ** 2 / (whole[1] - h + l2) - unsplit
                if gain > best[0]:
                    side = missing_left if lost else (1 if 2 * n >= n_rows else 0)
                    best[0], best[1], best[2], best[3], best[4], best[5], best[6] = gain, f, place, side, g, h, n


@njit(cache=True, nogil=True)
def _part(column, rows, place, missing_left, spare):  # type: ignore[no-untyped-def]
    """Put the rows that go left before the others, both in their order; how many these are."""
    left, right = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        here = column[row]
        goes_left = missing_left if here == MISSING else here <= place
        if goes_left:
            rows[left] = row
            left += 1
        else:
            spare[right] = row
            right += 1
    rows[left:] = spare[:right]
    return left


@njit(cache=True, nogil=True, error_model="numpy")
def _grow(binned, n_bins, slopes, rows, features, leaves, rate, l2, least_rows):  # type: ignore[no-untyped-def]
    """One tree; `rows` are put into the order of its leaves."""
    most = 2 * leaves - 1
    feature, place = np.full(most, -1, np.int32), np.zeros(most, np.int32)
    left, right = np.zeros(most, np.int32), np.zeros(most, np.int32)
    missing_left, value, gain = np.zeros(most, np.bool_), np.zeros(most), np.zeros(most)
    # of each leaf: its node, its rows, where its histograms are, its sums, its best split
    node, first, last = np.zeros(leaves, np.int64), np.zeros(leaves, np.int64), np.zeros(leaves, np.int64)
    slot = np.zeros(leaves, np.int64)
    wholes, bests = np.zeros((leaves, 2)), np.zeros((leaves, 7))
    sums = np.empty((leaves, len(features), 256, 2))
    counts = np.empty((leaves, len(features), 256), np.int32)
    spare = np.empty(len(rows), np.int32)

    last[0] = len(rows)
    for i in range(len(rows)):
        wholes[0, 0] += slopes[rows[i], 0]
        wholes[0, 1] += slopes[rows[i], 1]
    _count(binned, slopes, rows, features, sums[0], counts[0])
    _best_split((sums[0], counts[0]), features, n_bins, wholes[0], len(rows), l2, least_rows, bests[0])
    n_nodes, n_leaves = 1, 1
    while n_leaves < leaves:
        leaf = int(np.argmax(bests[:n_leaves, 0]))
        best = bests[leaf].copy()
        if best[0] <= 0:
            break
        old, new, parent = leaf, n_leaves, node[leaf]
        feature[parent], place[parent] = features[int(best[1])], int(best[2])
        missing_left[parent], gain[parent] = best[3] > 0, best[0]
        left[parent], right[parent] = n_nodes, n_nodes + 1
        node[old], node[new] = n_nodes, n_nodes + 1
        n_nodes += 2
        n_leaves += 1

        middle = first[old] + _part(
            binned[feature[parent]], rows[first[old] : last[old]], place[parent], missing_left[parent], spare
        )
        first[new], last[new], last[old] = middle, last[old], middle
        wholes[new, 0], wholes[new, 1] = wholes[old, 0] - best[4], wholes[old, 1] - best[5]
        wholes[old, 0], wholes[old, 1] = best[4], best[5]
        if n_leaves == leaves:
            break
        small, large = old, new
        if last[new] - first[new] < last[old] - first[old]:
            small, large = new, old
        slot[large], slot[small] = slot[old], new
        _count(binned, slopes, rows[first[small] : last[small]], features, sums[new], counts[new])
        _take_away(sums[slot[large]], counts[slot[large]], sums[new], counts[new])
        for child in (old, new):
            histogram = (sums[slot[child]], counts[slot[child]])
            size = last[child] - first[child]
            _best_split(histogram, features, n_bins, wholes[child], size, l2, least_rows, bests[child])
    for leaf in range(n_leaves):
        value[node[leaf]] = -rate * wholes[leaf, 0] / (wholes[leaf, 1] + l2)
    return (
        feature[:n_nodes], place[:n_nodes], left[:n_nodes], right[:n_nodes], missing_left[:n_nodes], value[:n_nodes],
        gain[:n_nodes],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _add_values(binned, tree, log_odds):  # type: ignore[no-untyped-def]
    """Let every row fall through a new tree."""
    feature, place, left, right, missing_left, value, _ = tree
    for row in range(len(log_odds)):
        node = 0
        while feature[node] >= 0:
            here = binned[feature[node], row]
            goes_left = missing_left[node] if here == MISSING else here <= place[node]
            node = left[node] if goes_left else right[node]
        log_odds[row] += value[node]


@njit(cache=True, nogil=True)
def _score(X, feature, threshold, left, right, missing_left, value, starts, found):  # type: ignore[no-untyped-def]
    for row in range(len(X)):
        for tree in range(len(starts) - 1):
            node = starts[tree]
            while feature[node] >= 0:
                here = X[row, feature[node]]
                goes_left = missing_left[node] if np.isnan(here) else here <= threshold[node]
                node = left[node] if goes_left else right[node]
            found[row] += value[node]
