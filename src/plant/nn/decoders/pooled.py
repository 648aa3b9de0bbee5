"""Decoders that squeeze a document into one vector before they look at labels: maximum, mean, last state, chunks."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plant.nn.attention import masked_max, masked_mean
from plant.nn.decoders.label_attention import prior_logits
from plant.nn.dropout import ByteDropout
from plant.nn.layers import without_padding
from plant.tensors import Decoded, Encoded
from plant.values import Amount, Count, Dropout, small


class MaxPool(nn.Module):
    """The largest value of each feature, then a linear layer: the decoder of Text-CNN."""

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        dropout: Dropout = 0.0,
        start_at_prior: bool = True,
    ) -> None:
        super().__init__()
        self.dropout = ByteDropout(dropout)
        self.output = _linear(input_size, n_labels, frequencies if start_at_prior else None)

    def forward(self, encoded: Encoded) -> Decoded:
        return Decoded(self.output(self.dropout(masked_max(encoded.states, encoded.mask))))

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """What each position gives to the logit through the features that are largest there."""
        largest, where = _largest(encoded.states, encoded.mask)
        given = self.output.weight[labels] * largest.unsqueeze(1)  # [batch, asked, size]
        return as_evidence(_at_positions(given, where, n_positions=encoded.mask.shape[1]), encoded.mask)


class MeanPool(nn.Module):
    """The mean of each feature, then a linear layer: the decoder of FastText."""

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        dropout: Dropout = 0.0,
        start_at_prior: bool = True,
    ) -> None:
        super().__init__()
        self.dropout = ByteDropout(dropout)
        self.output = _linear(input_size, n_labels, frequencies if start_at_prior else None)

    def forward(self, encoded: Encoded) -> Decoded:
        return Decoded(self.output(self.dropout(masked_mean(encoded.states, encoded.mask))))

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """What each position gives to the logit."""
        states = without_padding(encoded.states, encoded.mask)
        return as_evidence(self.output.weight[labels] @ states.transpose(1, 2), encoded.mask)


class LastState(nn.Module):
    """Where both directions end, then a linear layer: the decoder of Bi-GRU.

    The first half of the features is read at the last real token, the second half at the first; without
    `bidirectional` all are read at the last. It looks at no other position, so it has no `attend`.
    """

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        bidirectional: bool = True,
        dropout: Dropout = 0.0,
        start_at_prior: bool = True,
    ) -> None:
        super().__init__()
        self.forward_size = input_size // 2 if bidirectional else input_size
        self.dropout = ByteDropout(dropout)
        self.output = _linear(input_size, n_labels, frequencies if start_at_prior else None)

    def forward(self, encoded: Encoded) -> Decoded:
        states = without_padding(encoded.states, encoded.mask)
        last = (encoded.mask.sum(1) - 1).clamp(min=0)
        place = last.view(-1, 1, 1).expand(-1, 1, self.forward_size)
        ahead = states[:, :, : self.forward_size].gather(1, place).squeeze(1)
        return Decoded(self.output(self.dropout(torch.cat([ahead, states[:, 0, self.forward_size :]], dim=-1))))


class ChunkMaxPool(nn.Module):
    """XML-CNN's dynamic maximum: each document is cut into `chunks` equal parts, then bottleneck and linear layer.

    Liu et al. 2017; the parts are those of adaptive pooling, taken over each document's own length. Learning that codes
    are rare keeps the bottleneck's units open: with `start_at_prior` they die in the first fifty steps, unless their
    biases start well above zero (`open_at`).
    """

    tiny = small(chunks=3, bottleneck=7)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        chunks: Count = 2,
        bottleneck: Count = 512,
        dropout: Dropout = 0.5,
        start_at_prior: bool = False,
        open_at: Amount = 0.0,
    ) -> None:
        super().__init__()
        self.chunks = chunks
        self.bottleneck = nn.Linear(chunks * input_size, bottleneck)
        if open_at:
            nn.init.constant_(self.bottleneck.bias, open_at)
        self.dropout = ByteDropout(dropout)
        self.output = _linear(bottleneck, n_labels, frequencies if start_at_prior else None)

    def forward(self, encoded: Encoded) -> Decoded:
        largest, _ = _largest_of_chunks(encoded.states, encoded.mask, self.chunks)
        return Decoded(self.output(self.dropout(self.bottleneck(largest).relu())))

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """What each position gives to the logit through the features that are largest there, at the ReLU's slope."""
        largest, where = _largest_of_chunks(encoded.states, encoded.mask, self.chunks)
        open_gates = (self.bottleneck(largest) > 0).to(largest.dtype)
        slope = (self.output.weight[labels] * open_gates.unsqueeze(1)) @ self.bottleneck.weight
        given = slope * largest.unsqueeze(1)
        return as_evidence(_at_positions(given, where, n_positions=encoded.mask.shape[1]), encoded.mask)


def as_evidence(
    given: Float[Tensor, "batch asked time"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch asked time"]:
    """What speaks for a label, as a distribution over the real positions; even where nothing does."""
    real = mask.unsqueeze(1)
    positive = torch.where(real, given.clamp(min=0), 0.0)
    total = positive.sum(-1, keepdim=True)
    even = real / real.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(total > 0, positive / total.clamp(min=torch.finfo(total.dtype).tiny), even.to(given.dtype))


def _linear(input_size: int, n_labels: int, frequencies: Float[Tensor, "label"] | None) -> nn.Linear:
    """The output layer; its biases start at the labels' log-odds where the frequencies are given, else at zero."""
    layer = nn.Linear(input_size, n_labels)
    nn.init.xavier_uniform_(layer.weight)
    with torch.no_grad():
        layer.bias.copy_(prior_logits(frequencies, n_labels))
    return layer


def _largest(
    states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]
) -> tuple[Float[Tensor, "batch size"], Int[Tensor, "batch size"]]:
    values, where = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).max(1)
    return torch.where(mask.any(1, keepdim=True), values, 0.0), where


def _largest_of_chunks(
    states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"], chunks: int
) -> tuple[Float[Tensor, "batch pooled"], Int[Tensor, "batch pooled"]]:
    """Per document the largest values of each chunk, and where they stand; zero for a document without tokens."""
    inputs = without_padding(states, mask).transpose(1, 2)
    lengths = mask.sum(1).clamp(min=1).tolist()
    pooled = [
        F.adaptive_max_pool1d(document[:, :length], chunks, return_indices=True)
        for document, length in zip(inputs, lengths, strict=True)
    ]
    values, where = (torch.stack(parts).flatten(1) for parts in zip(*pooled, strict=True))
    return values, where


def _at_positions(
    given: Float[Tensor, "batch asked pooled"], where: Int[Tensor, "batch pooled"], *, n_positions: int
) -> Float[Tensor, "batch asked time"]:
    """The sum, at each position, of what the features found there give."""
    empty = given.new_zeros(*given.shape[:2], n_positions)
    return empty.scatter_add(-1, where.unsqueeze(1).expand_as(given), given)
