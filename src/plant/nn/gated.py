"""One GRU layer: torch's own where it is quick, and for training on a CPU kernels of ours.

On CPUs torch takes some twenty small operations a word there and back, which cost more than what they compute. Our
kernels read a document word by word while the recurrent weights lie in the cache, and leave everything else to matrix
products over all words. Padding is never read.
"""

from typing import Any, TypeGuard

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from plant.nn.forms import compiled_for, full_precision

CACHED = 1 << 19  # bytes of recurrent weights that a core has at hand for every word; more are read once for a batch


def has_kernel(layer: nn.Module) -> TypeGuard[nn.GRU]:
    """Whether `read_documents` is the quick way through a layer where it lies."""
    if not isinstance(layer, nn.GRU):
        return False
    weight = layer.get_parameter("weight_hh_l0")
    return compiled_for(weight.device) and weight.nbytes <= CACHED


def read_documents(
    layer: nn.GRU, states: Float[Tensor, "batch time input"], lengths: Int[Tensor, "batch"], *, from_end: bool = False
) -> Float[Tensor, "batch time size"]:
    """The layer's states at the first `lengths` positions of each document, zero behind them.

    `from_end`: it begins at the last of these positions and ends at the first.
    """
    weight, bias = layer.get_parameter("weight_hh_l0"), layer.get_parameter("bias_hh_l0")
    real = torch.arange(states.shape[1], device=states.device) < lengths.unsqueeze(1)
    starts = F.pad(lengths.cumsum(0), (1, 0))
    with full_precision(states.device):
        words = states[real].to(weight.dtype)
        inputs = F.linear(words, layer.get_parameter("weight_ih_l0"), layer.get_parameter("bias_ih_l0"))
        read: Tensor = _Documents.apply(inputs, weight, bias, starts, from_end)  # type: ignore[no-untyped-call]
    return read.new_zeros(*real.shape, read.shape[1]).index_put((real,), read)


class _Documents(torch.autograd.Function):
    """The recurrence, from the inputs' share of the gates: reset, keep, new, as in `nn.GRU`."""

    @staticmethod
    def forward(
        context: Any,
        inputs: Float[Tensor, "word gates"],
        weight: Float[Tensor, "gates size"],
        bias: Float[Tensor, "gates"],
        starts: Int[Tensor, "bound"],
        from_end: bool,
    ) -> Tensor:
        gates, size = inputs.detach().clone(), weight.shape[1]
        states, before, proposed = (inputs.new_zeros(len(inputs), size) for _ in range(3))
        turned = weight.detach().T.contiguous()
        arrays = (gates, turned, bias.detach(), starts, states, before, proposed)
        _read(from_end, *(array.numpy() for array in arrays))
        context.save_for_backward(gates, weight, starts, before, proposed)
        context.from_end = from_end
        return states

    @staticmethod
    @once_differentiable
    def backward(context: Any, of_states: Tensor) -> tuple[Tensor | None, ...]:
        gates, weight, starts, before, proposed = context.saved_tensors
        of_inputs, of_recurrent = torch.empty_like(gates), torch.empty_like(gates)
        arrays = (gates, weight.detach(), starts, before, proposed, of_states.contiguous(), of_inputs, of_recurrent)
        _go_back(context.from_end, *(array.numpy() for array in arrays))
        return of_inputs, of_recurrent.T @ before, of_recurrent.sum(0), None, None


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _read(from_end, gates, turned, bias, starts, states, before, proposed):  # type: ignore[no-untyped-def]
    """Fill in `states`, those `before` each word and what the reset gate was `proposed`; `gates` open or shut."""
    size = states.shape[1]
    asked = np.empty_like(bias)
    for document in range(len(starts) - 1):
        first, last = starts[document], starts[document + 1] - 1
        hidden = np.zeros_like(states[0])
        for step in range(last + 1 - first):
            word = last - step if from_end else first + step
            before[word] = hidden
            asked[:] = bias
            for k in range(size):
                share = hidden[k]
                for gate in range(3 * size):
                    asked[gate] += share * turned[k, gate]
            row = gates[word]
            for unit in range(size):
                reset = 1 / (1 + np.exp(-row[unit] - asked[unit]))
                keep = 1 / (1 + np.exp(-row[size + unit] - asked[size + unit]))
                proposed[word, unit] = asked[2 * size + unit]
                asked_new = row[2 * size + unit] + reset * asked[2 * size + unit]
                new = 1 - 2 / (1 + np.exp(2 * asked_new))  # tanh, which is slower by itself
                row[unit], row[size + unit], row[2 * size + unit] = reset, keep, new
                hidden[unit] = new + keep * (hidden[unit] - new)
            states[word] = hidden


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _go_back(from_end, gates, weight, starts, before, proposed, of_states, of_inputs, of_recurrent):  # type: ignore[no-untyped-def]
    """Fill in the gradients of the inputs' and of the recurrent share of the gates."""
    size = before.shape[1]
    for document in range(len(starts) - 1):
        first, last = starts[document], starts[document + 1] - 1
        of_hidden = np.zeros_like(before[0])
        for step in range(last, first - 1, -1):
            word = last + first - step if from_end else step
            row, of_input, of_asked = gates[word], of_inputs[word], of_recurrent[word]
            for unit in range(size):
                reset, keep, new = row[unit], row[size + unit], row[2 * size + unit]
                of_state = of_hidden[unit] + of_states[word, unit]
                of_new = of_state * (1 - keep) * (1 - new * new)
                of_input[unit] = of_new * proposed[word, unit] * reset * (1 - reset)
                of_input[size + unit] = of_state * (before[word, unit] - new) * keep * (1 - keep)
                of_input[2 * size + unit] = of_new
                of_asked[2 * size + unit] = of_new * reset
                of_hidden[unit] = of_state * keep
            of_asked[: 2 * size] = of_input[: 2 * size]
            for gate in range(3 * size):
                share = of_asked[gate]
                for k in range(size):
                    of_hidden[k] += share * weight[gate, k]
