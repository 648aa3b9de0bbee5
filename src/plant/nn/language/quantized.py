"""The AWD-LSTM with weights of eight bits, for inference on CPUs.

Torch's kernels for this (FBGEMM on x86, QNNPACK on ARM) take weights as one byte and a scale per row, and quantise what
they multiply them with on the fly. Torch means to replace these operators; the one place that uses them is here.
"""

import warnings

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.errors import InputError
from plant.nn.language.awd_lstm import AWDLSTM, Carry, Draw, LSTMLayer, start

ROWS = 16  # documents read at a time: more no longer fit the cache, and run slower


class Int8AWDLSTM(nn.Module):
    """Reads like the network it was made from; not trainable."""

    def __init__(self, network: AWDLSTM) -> None:
        super().__init__()
        self.size, self.sizes = network.size, network.sizes
        self.words = network.words
        self.packed = [_packed_layer(layer) for layer in network.layers]

    @torch.no_grad()
    def forward(
        self, tokens: Int[Tensor, "batch time"], carry: Carry | None = None, draw: Draw | None = None
    ) -> tuple[Float[Tensor, "batch time size"], Carry]:
        """The states of the last layer, and where reading stopped."""
        before = start(self.words, len(tokens), self.sizes) if carry is None else carry
        parts = [
            self._read(tokens[rows], tuple((hidden[rows], cell[rows]) for hidden, cell in before))
            for rows in (slice(first, first + ROWS) for first in range(0, len(tokens), ROWS))
        ]
        after = tuple(
            tuple(map(torch.cat, zip(*layer, strict=True))) for layer in zip(*(c for _, c in parts), strict=True)
        )
        return torch.cat([states for states, _ in parts]), after  # type: ignore[return-value]

    def draw(self) -> Draw:
        """Nothing is drawn: there is no dropout in inference."""
        return Draw(())

    def _read(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        states, after = torch.nn.functional.embedding(tokens, self.words), []
        for packed, (hidden, cell) in zip(self.packed, carry, strict=True):
            states, hidden, cell = torch.quantized_lstm(
                states, (hidden.unsqueeze(0), cell.unsqueeze(0)), [packed], True, 1, 0.0, False, False, True,
                dtype=torch.qint8, use_dynamic=True,
            )  # fmt: skip
            after.append((hidden[0], cell[0]))
        return states, tuple(after)


def _packed_layer(layer: nn.Module) -> object:
    assert isinstance(layer, LSTMLayer)
    bias, nothing = layer.bias.detach().float(), torch.zeros_like(layer.bias.detach()).float()
    try:
        return torch.ops.quantized.make_quantized_cell_params_dynamic(
            _packed(layer.input_weight, bias), _packed(layer.recurrent_weight, nothing), bias, nothing, True
        )
    except (AttributeError, RuntimeError) as error:
        raise InputError("this build of torch has no int8 kernels for this processor: run without int8") from error


def _packed(weight: Float[Tensor, "gates size"], bias: Float[Tensor, "gates"]) -> object:
    """One byte per weight, and per row the scale that makes its largest weight 127."""
    weight = weight.detach().float()
    scales = (weight.abs().amax(1) / 127).clamp(min=1e-12).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that quantised tensors will be replaced, see above
        rounded = torch.quantize_per_channel(
            weight, scales, torch.zeros(len(weight), dtype=torch.int64), 0, torch.qint8
        )
    return torch.ops.quantized.linear_prepack(rounded, bias)
