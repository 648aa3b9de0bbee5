"""Layers over time that padding cannot touch: words, convolutions, normalisation, squeeze and excitation."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plant.nn.attention import masked_mean
from plant.nn.convolved import convolved_at
from plant.nn.dropout import ByteDropout
from plant.tensors import Chosen
from plant.text.vocab import PADDING


def without_padding(
    states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch time size"]:
    """The states with zeros at padding; a choice, not a product, since padding may hold NaN."""
    return torch.where(mask.unsqueeze(-1), states, 0.0)


class WordEmbedding(nn.Module):
    """A vector per token, zero at padding.

    `word_vectors` set the width and the first values; `frozen` keeps them, and means nothing without them.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        size: int = 100,
        word_vectors: Float[Tensor, "token size"] | None = None,
        frozen: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if word_vectors is None:
            self.table = nn.Embedding(vocab_size, size, padding_idx=PADDING)
        else:
            self.table = nn.Embedding(
                *word_vectors.shape, padding_idx=PADDING, _weight=word_vectors.clone(), _freeze=frozen
            )
        self.size = self.table.embedding_dim
        self.dropout = ByteDropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time size"]:
        return self.dropout(without_padding(self.table(tokens), mask))


class Convolution(nn.Module):
    """A convolution over time that keeps the length: position i sees `kernel` tokens from i - kernel // 2 on.

    Padding and what lies beyond both ends counts as zero. With an even kernel the usual padding of kernel // 2 gives
    one position more than there are tokens; that last one is left out, so that position i stays token i.
    """

    def __init__(self, input_size: int, size: int, *, kernel: int, bias: bool = True) -> None:
        super().__init__()
        before = kernel // 2
        self.margin = (before, kernel - 1 - before)
        self.convolution = nn.Conv1d(input_size, size, kernel, bias=bias)
        nn.init.xavier_uniform_(self.convolution.weight)

    def forward(
        self, states: Float[Tensor, "batch time input"], mask: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time size"]:
        inputs = F.pad(without_padding(states, mask).transpose(1, 2), self.margin)
        return self.convolution(inputs).transpose(1, 2)

    def at(
        self, states: Float[Tensor, "batch time input"], mask: Bool[Tensor, "batch time"], chosen: Chosen
    ) -> Float[Tensor, "batch place size"]:
        """What `forward` gives at chosen positions; on a CPU nothing else is computed."""
        weight, bias = self.convolution.weight, self.convolution.bias
        if states.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return chosen.of(self(states, mask))
        found = convolved_at(states, mask.sum(1).tolist(), weight, chosen, before=self.margin[0])
        return found if bias is None else found + bias


class BatchNorm(nn.Module):
    """Batch normalisation whose statistics are those of the real positions; zero at padding."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(size)

    def forward(
        self, states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time size"]:
        real = states[mask]  # [positions, size]
        normal = self.norm(real) if len(real) > 1 or not self.training else real  # one position has no variance
        return torch.zeros_like(states).masked_scatter(mask.unsqueeze(-1), normal)


class SqueezeExcitation(nn.Module):
    """Weighs each feature by a gate that a two-layer net computes from the document's mean features."""

    def __init__(self, size: int, *, reduction: int = 16) -> None:
        super().__init__()
        self.squeeze = nn.Linear(size, max(1, size // reduction))
        self.excite = nn.Linear(max(1, size // reduction), size)

    def forward(
        self, states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time size"]:
        gate = self.excite(self.squeeze(masked_mean(states, mask)).relu()).sigmoid()
        return states * gate.unsqueeze(1)
