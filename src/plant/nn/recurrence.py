"""One LSTM layer: torch's own kernels, and for one document at a time on a CPU a backward pass that reads less memory.

With one document every step is a matrix times a vector, and time goes into reading the matrix. Torch's kernel adds to
the gradient of the whole matrix at every step; here all steps share one matrix product at the end.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

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
    if len(inputs) == 1 and inputs.device.type == "cpu" and torch.is_grad_enabled():
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
        size = len(hidden)
        turned = weight.T.contiguous()  # read along its rows in both passes: a third faster, and worth one copy
        gates = torch.empty_like(inputs)
        hiddens, cells = inputs.new_empty(len(inputs) + 1, size), inputs.new_empty(len(inputs) + 1, size)
        hiddens[0], cells[0] = hidden, cell
        for step in range(len(inputs)):
            now = torch.addmv(inputs[step], turned.T, hiddens[step], out=gates[step])
            into, forget, new, out = now.split(size)
            now[: 2 * size].sigmoid_(), new.tanh_(), out.sigmoid_()
            torch.mul(forget, cells[step], out=cells[step + 1]).addcmul_(into, new)
            torch.tanh(cells[step + 1], out=hiddens[step + 1]).mul_(out)
        context.save_for_backward(gates, hiddens, cells, turned)
        return hiddens[1:].clone(), hiddens[-1].clone(), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(context: Any, of_states: Tensor, of_hidden: Tensor, of_cell: Tensor) -> tuple[Tensor, ...]:
        gates, hiddens, cells, turned = context.saved_tensors
        size = hiddens.shape[1]
        forget, of_gates, of_output = gates[:, size : 2 * size], *_slopes(gates, cells)
        for step in reversed(range(len(gates))):
            of_hidden = of_hidden + of_states[step]
            of_cell = torch.addcmul(of_cell, of_hidden, of_output[step])
            of_gates[step, : 3 * size].view(3, size).mul_(of_cell)
            of_gates[step, 3 * size :].mul_(of_hidden)
            of_cell = of_cell * forget[step]
            of_hidden = torch.mv(turned, of_gates[step])
        return of_gates, of_hidden, of_cell, of_gates.T @ hiddens[:-1]


def _slopes(gates: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """What each gate's input does to cell (first three gates) or hidden state, and what the cell does to the hidden."""
    into, forget, new, out = gates.chunk(4, dim=1)
    shown = cells[1:].tanh()
    of_cell = [new * into * (1 - into), cells[:-1] * forget * (1 - forget), into * (1 - new.square())]
    return torch.cat([*of_cell, shown * out * (1 - out)], dim=1), out * (1 - shown.square())
