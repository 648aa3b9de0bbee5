"""A convolution over time at chosen positions only, as matrix products over the windows around them.

A document at a time, so that its windows stay in the cache; the backward pass gathers them again instead of keeping
them. For CPUs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numba import njit
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from plant.tensors import Chosen

Starts = NDArray[np.int64]


def convolved_at(
    states: Float[Tensor, "batch time input"],
    lengths: Sequence[int],
    weight: Float[Tensor, "size input kernel"],
    chosen: Chosen,
    *,
    before: int,
) -> Float[Tensor, "batch place size"]:
    """The sums over windows that begin `before` positions earlier; beyond both ends of a document all is zero.

    Zero where a document has fewer places than others.
    """
    counts = chosen.mask.sum(1).tolist()
    starts = [row[:count] - before for row, count in zip(chosen.places.numpy(), counts, strict=True)]
    return _ConvolvedAt.apply(states, weight, lengths, starts)  # type: ignore[no-untyped-call]


class _ConvolvedAt(torch.autograd.Function):
    """`starts` are those of each document's windows."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, lengths: Sequence[int], starts: list[Starts]) -> Tensor:
        states = states.contiguous()
        ctx.save_for_backward(states, weight)
        ctx.lengths, ctx.starts = lengths, starts
        size, width, kernel = weight.shape
        turned, most = weight.permute(2, 1, 0).reshape(-1, size), max(map(len, starts), default=0)
        windows, found = states.new_empty(most, kernel * width), states.new_zeros(len(states), max(1, most), size)
        for row, (length, own) in enumerate(zip(lengths, starts, strict=True)):
            _gather(states[row, :length].numpy(), own, kernel, windows.numpy())
            torch.mm(windows[: len(own)], turned, out=found[row, : len(own)])
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (states, weight), slopes = ctx.saved_tensors, slopes.contiguous()
        size, width, kernel = weight.shape
        turned = weight.permute(0, 2, 1).reshape(size, -1)
        windows, of_windows = (states.new_empty(slopes.shape[1], kernel * width) for _ in range(2))
        of_states, of_turned = torch.zeros_like(states), states.new_zeros(kernel * width, size)
        for row, (length, own) in enumerate(zip(ctx.lengths, ctx.starts, strict=True)):
            of_row = slopes[row, : len(own)]
            if ctx.needs_input_grad[1]:
                _gather(states[row, :length].numpy(), own, kernel, windows.numpy())
                of_turned.addmm_(windows[: len(own)].T, of_row)
            if ctx.needs_input_grad[0]:
                torch.mm(of_row, turned, out=of_windows[: len(own)])
                _scatter(of_windows.numpy(), own, kernel, of_states[row, :length].numpy())
        return of_states, of_turned.view(kernel, width, size).permute(2, 1, 0), None, None


@njit(cache=True, nogil=True)
def _gather(states, starts, kernel, windows):  # type: ignore[no-untyped-def]
    """Write the windows that begin at `starts` into rows; zero beyond both ends."""
    length, width = states.shape
    for row in range(len(starts)):
        for offset in range(kernel):
            position, first = starts[row] + offset, offset * width
            if 0 <= position < length:
                for column in range(width):
                    windows[row, first + column] = states[position, column]
            else:
                for column in range(width):
                    windows[row, first + column] = 0


@njit(cache=True, nogil=True)
def _scatter(windows, starts, kernel, states):  # type: ignore[no-untyped-def]
    """Add rows back to where their windows came from."""
    length, width = states.shape
    for row in range(len(starts)):
        for offset in range(kernel):
            position, first = starts[row] + offset, offset * width
            if 0 <= position < length:
                for column in range(width):
                    states[position, column] += windows[row, first + column]
