"""The minimum of a smooth convex function plus l1 |x|: OWL-QN (Andrew and Gao 2007), which is L-BFGS where l1 = 0.

    pseudo-gradient   p = g + l1 sign(x),  where x = 0: g moved towards 0 by l1
    direction         d = -H p,  0 where it does not go downhill (d p >= 0)
    step              x' = x + t d,  0 where it leaves the orthant of x (of -p where x = 0)
    taken when        f(x') + l1 |x'| <= f(x) + l1 |x| + 0.0001 p . (x' - x),  or else t is halved

H is the inverse curvature that the last `memory` steps and changes of g show. Sums have 64 bits, vectors 32.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32
from numba import njit

from plant.types import Progress, silent

Vector = Float32[np.ndarray, "parameter"]
Evaluate = Callable[[Vector], tuple[float, Vector]]
ENOUGH = 1e-4  # share of the promised descent that a step must bring
MOST_HALVINGS = 20


def minimise(
    evaluate: Evaluate,
    start: Vector,
    *,
    l1: float = 0.0,
    iterations: int = 50,
    memory: int = 6,
    tolerance: float = 1e-5,
    period: int = 10,
    progress: Progress = silent,
) -> Vector:
    """Where `evaluate`, which gives value and gradient, plus l1 |x| is least.

    Stops when `period` iterations have brought less than the share `tolerance` of the value, as CRFsuite does, or when
    no step leads further down.
    """
    x, (smooth, gradient) = start, evaluate(start)
    values = [smooth + l1 * _norm_1(x)]
    history = _History(memory, len(start))
    slope = np.empty_like(start)
    _pseudo_gradient(x, gradient, l1, slope)
    for iteration in range(iterations):
        direction = history.direction(slope)
        _downhill(direction, slope)
        length = 1.0 if len(history) else 1.0 / max(1e-12, _dot(slope, slope) ** 0.5)
        found = _search(evaluate, x, slope, direction, length=length, l1=l1, value=values[-1])
        if found is None:
            break
        new, value, new_gradient = found
        history.add(new, x, new_gradient, gradient)
        x, gradient = new, new_gradient
        _pseudo_gradient(x, gradient, l1, slope)
        values.append(value)
        progress("iterations", iteration + 1, iterations)
        if _settled(values, period, tolerance) or _dot(slope, slope) <= tolerance**2 * max(1.0, _dot(x, x)):
            break
    return x


def _settled(values: list[float], period: int, tolerance: float) -> bool:
    return len(values) > period and values[-1 - period] - values[-1] < tolerance * abs(values[-1])


def _search(
    evaluate: Evaluate, x: Vector, slope: Vector, direction: Vector, *, length: float, l1: float, value: float
) -> tuple[Vector, float, Vector] | None:
    """The first of ever shorter steps that goes down far enough, with value and gradient there."""
    for _ in range(MOST_HALVINGS):
        new = np.empty_like(x)
        promised = _step(x, slope, direction, length, l1, new)
        smooth, gradient = evaluate(new)
        new_value = smooth + l1 * _norm_1(new)
        if promised < 0 and new_value <= value + ENOUGH * promised:  # never true for a value that is not a number
            return new, new_value, gradient
        length /= 2
    return None


class _History:
    """The last steps and the changes of the gradient along them, in a ring."""

    def __init__(self, memory: int, size: int) -> None:
        self._steps = np.zeros((memory, size), np.float32)
        self._changes = np.zeros((memory, size), np.float32)
        self._products = np.zeros(memory)  # of step and change
        self._scale = 1.0
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._steps))

    def add(self, new: Vector, old: Vector, new_gradient: Vector, old_gradient: Vector) -> None:
        slot = self._added % len(self._steps)
        product, square = _differences(new, old, new_gradient, old_gradient, self._steps[slot], self._changes[slot])
        if product > 0:  # else the function looks flat or concave here, which is rounding
            self._products[slot] = product
            self._scale = product / square
            self._added += 1

    def direction(self, slope: Vector) -> Vector:
        """-H times the slope, by the two loops of L-BFGS."""
        direction = -slope
        slots = [place % len(self._steps) for place in range(self._added - len(self), self._added)]
        shares = np.zeros(len(self._steps))
        for slot in reversed(slots):
            shares[slot] = _dot(self._steps[slot], direction) / self._products[slot]
            _add_times(direction, -shares[slot], self._changes[slot])
        direction *= np.float32(self._scale)
        for slot in slots:
            share = _dot(self._changes[slot], direction) / self._products[slot]
            _add_times(direction, shares[slot] - share, self._steps[slot])
        return direction


@njit(cache=True, nogil=True, fastmath=True)
def _dot(a, b):  # type: ignore[no-untyped-def]  # compiled; BLAS would sum in an order that depends on its threads
    total = 0.0
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@njit(cache=True, nogil=True, fastmath=True)
def _norm_1(a):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += abs(np.float64(a[i]))
    return total


@njit(cache=True, nogil=True)
def _add_times(a, factor, b):  # type: ignore[no-untyped-def]
    factor = np.float32(factor)
    for i in range(len(a)):
        a[i] += factor * b[i]


@njit(cache=True, nogil=True)
def _pseudo_gradient(x, gradient, l1, slope):  # type: ignore[no-untyped-def]
    """The steepest of the one-sided gradients, 0 where neither side leads down."""
    l1 = np.float32(l1)
    nothing = np.float32(0)
    for i in range(len(x)):
        g = gradient[i]
        if x[i] > 0:
            slope[i] = g + l1
        elif x[i] < 0:
            slope[i] = g - l1
        else:
            slope[i] = min(g + l1, nothing) + max(g - l1, nothing)


@njit(cache=True, nogil=True)
def _downhill(direction, slope):  # type: ignore[no-untyped-def]
    for i in range(len(direction)):
        if direction[i] * slope[i] >= 0:
            direction[i] = 0


@njit(cache=True, nogil=True)
def _step(x, slope, direction, length, l1, new):  # type: ignore[no-untyped-def]
    """Go along the direction within the orthant; what descent the slope promises for it."""
    length = np.float32(length)
    promised = 0.0
    for i in range(len(x)):
        there = x[i] + length * direction[i]
        if l1 > 0:
            side = x[i] if x[i] != 0 else -slope[i]
            if there * side <= 0:
                there = np.float32(0)
        new[i] = there
        promised += np.float64(there - x[i]) * np.float64(slope[i])
    return promised


@njit(cache=True, nogil=True)
def _differences(new, old, new_gradient, old_gradient, step, change):  # type: ignore[no-untyped-def]
    product, square = 0.0, 0.0
    for i in range(len(new)):
        step[i] = new[i] - old[i]
        change[i] = new_gradient[i] - old_gradient[i]
        product += np.float64(step[i]) * np.float64(change[i])
        square += np.float64(change[i]) * np.float64(change[i])
    return product, square
