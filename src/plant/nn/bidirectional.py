"""Recurrent layers that read in both directions, and that padding cannot touch."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plant.nn.gated import has_kernel, read_documents
from plant.nn.layers import without_padding


class Bidirectional(nn.Module):
    """Layers that read documents in both directions, the backward one from each document's last real token on.

    Packed documents would give the same states, but on CPUs the backward pass through them takes time squared in the
    length: 18 times as long at 730 tokens.
    """

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], input_size: int, hidden: int, layers: int) -> None:
        super().__init__()
        sizes = [input_size] + [2 * hidden] * (layers - 1)
        self.ahead = nn.ModuleList(kind(size, hidden, batch_first=True) for size in sizes)
        self.back = nn.ModuleList(kind(size, hidden, batch_first=True) for size in sizes)

    def forward(
        self, states: Float[Tensor, "batch time input"], mask: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time size"]:
        lengths = mask.sum(1)
        for ahead, back in zip(self.ahead, self.back, strict=True):
            halves = _read(ahead, states, lengths), _read(back, states, lengths, from_end=True)
            states = torch.cat(halves, dim=-1)
        return without_padding(states, mask)


def _read(
    layer: nn.Module,
    states: Float[Tensor, "batch time input"],
    lengths: Int[Tensor, "batch"],
    *,
    from_end: bool = False,
) -> Float[Tensor, "batch time size"]:
    if has_kernel(layer):
        return read_documents(layer, states, lengths, from_end=from_end)
    if not from_end:
        return layer(states)[0]
    return turned(layer(turned(states, lengths))[0], lengths)


def turned(states: Float[Tensor, "batch time size"], lengths: Int[Tensor, "batch"]) -> Float[Tensor, "batch time size"]:
    """Each document from its last real token to its first; padding stays behind."""
    place = torch.arange(states.shape[1], device=states.device)
    opposite = lengths.unsqueeze(1) - 1 - place
    source = opposite.where(opposite >= 0, place).unsqueeze(2)
    return states.gather(1, source.expand(-1, -1, states.shape[2]))
