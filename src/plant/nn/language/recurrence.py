"""One LSTM layer: torch's own kernels, and for the training of one document at a time on a CPU kernels of ours.

With one document every step is a matrix times a vector, and time goes into reading the matrix. Our kernels read it once
a step in the order in which it lies, and leave everything else to matrix products over all steps.
"""

from typing import Any

import torch
from jaxtyping import Float
from numba import njit
from numpy import exp, tanh, zeros_like
from torch import Tensor
from torch.autograd.function import once_differentiable

from plant.nn.forms import compiled_for

State = tuple[Float[Tensor, "batch size"], Float[Tensor, "batch size"]]
"""The hidden and the cell state of a layer."""


def run_layer(
    inputs: Float[Tensor, "batch time input"],
    state: State,
    *,
    input_weight: Float[Tensor, "gates input"],
    recurrent_weight: Float[Tensor, "gates size"],
    bias: Float[Tensor, "gates"],
) -> tuple[Float[Tensor, "batch time size"], State]:
    """The states of one layer and the last of them; gates lie as in `nn.LSTM`: input, forget, cell, output."""
    if len(inputs) == 1 and compiled_for(inputs.device) and torch.is_grad_enabled():
        gates = torch.nn.functional.linear(inputs[0], input_weight, bias)
        states, hidden, cell = _OneDocument.apply(gates, state[0][0], state[1][0], recurrent_weight)  # type: ignore[no-untyped-call]
        return states.unsqueeze(0), (hidden.unsqueeze(0), cell.unsqueeze(0))
    before = (state[0].unsqueeze(0), state[1].unsqueeze(0))
    weights = [input_weight, recurrent_weight, bias, torch.zeros_like(bias)]
    states, hidden, cell = torch.lstm(
        inputs, before, weights, has_biases=True, num_layers=1, dropout=0.0, train=False, bidirectional=False,
        batch_first=True,
    )  # fmt: skip
    return states, (hidden[0], cell[0])


class _OneDocument(torch.autograd.Function):
    """The recurrence of one document, from the inputs' share of the gates."""

    @staticmethod
    def forward(
        context: Any,
        inputs: Float[Tensor, "time gates"],
        hidden: Float[Tensor, "size"],
        cell: Float[Tensor, "size"],
        weight: Float[Tensor, "gates size"],
    ) -> tuple[Tensor, Tensor, Tensor]:
        gates = inputs.detach().clone()
        hiddens, cells = (inputs.new_empty(len(inputs) + 1, len(hidden)) for _ in range(2))
        hiddens[0], cells[0] = hidden, cell
        _read(gates.numpy(), hiddens.numpy(), cells.numpy(), weight.detach().numpy())
        context.save_for_backward(gates, hiddens, cells, weight)
        return hiddens[1:].clone(), hiddens[-1].clone(), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(context: Any, of_states: Tensor, of_hidden: Tensor, of_cell: Tensor) -> tuple[Tensor, ...]:
        gates, hiddens, cells, weight = context.saved_tensors
        of_gates, of_hidden, of_cell = torch.empty_like(gates), of_hidden.clone(), of_cell.clone()
        read, written = (gates, cells, weight.detach(), of_states.contiguous()), (of_hidden, of_cell, of_gates)
        _go_back(*(tensor.numpy() for tensor in (*read, *written)))
        return of_gates, of_hidden, of_cell, of_gates.T @ hiddens[:-1]


@njit(cache=True, fastmath=True)
def _read(gates, hiddens, cells, weight):  # type: ignore[no-untyped-def]
    """Fill in `hiddens` and `cells` after their first row; `gates` go from the inputs' share to open or shut."""
    size = hiddens.shape[1]
    for step in range(len(gates)):
        before, gate = hiddens[step], gates[step]
        for unit in range(size):
            into, forget = gate[unit], gate[size + unit]
            new, out = gate[2 * size + unit], gate[3 * size + unit]
            for k in range(size):
                into += weight[unit, k] * before[k]
                forget += weight[size + unit, k] * before[k]
                new += weight[2 * size + unit, k] * before[k]
                out += weight[3 * size + unit, k] * before[k]
            into, forget, new, out = 1 / (1 + exp(-into)), 1 / (1 + exp(-forget)), tanh(new), 1 / (1 + exp(-out))
            gate[unit], gate[size + unit], gate[2 * size + unit], gate[3 * size + unit] = into, forget, new, out
            cells[step + 1, unit] = forget * cells[step, unit] + into * new
            hiddens[step + 1, unit] = out * tanh(cells[step + 1, unit])


@njit(cache=True, fastmath=True)
def _go_back(gates, cells, weight, of_states, of_hidden, of_cell, of_gates):  # type: ignore[no-untyped-def]
    """Fill in `of_gates`; `of_hidden` and `of_cell` go from the gradients of the last state to those of the first."""
    size = len(of_hidden)
    for step in range(len(gates) - 1, -1, -1):
        gate = gates[step]
        earlier = zeros_like(of_hidden)
        for unit in range(size):
            into, forget = gate[unit], gate[size + unit]
            new, out = gate[2 * size + unit], gate[3 * size + unit]
            shown = tanh(cells[step + 1, unit])
            of_shown = of_hidden[unit] + of_states[step, unit]
            of_state = of_cell[unit] + of_shown * out * (1 - shown * shown)
            of_into, of_forget = (
                of_state * new * into * (1 - into),
                of_state * cells[step, unit] * forget * (1 - forget),
            )
            of_new, of_out = of_state * into * (1 - new * new), of_shown * shown * out * (1 - out)
            of_cell[unit] = of_state * forget
            of_gates[step, unit], of_gates[step, size + unit] = of_into, of_forget
            of_gates[step, 2 * size + unit], of_gates[step, 3 * size + unit] = of_new, of_out
            for k in range(size):
                earlier[k] += (
                    of_into * weight[unit, k]
                    + of_forget * weight[size + unit, k]
                    + of_new * weight[2 * size + unit, k]
                    + of_out * weight[3 * size + unit, k]
                )
        of_hidden[:] = earlier
