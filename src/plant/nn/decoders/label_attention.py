"""Label attention: every label looks at a document with a query of its own.

CAML (Mullenbach et al. 2018) asks the states themselves, A = softmax(U h); LAAT (Vu et al. 2020) asks what a layer
makes of them, A = softmax(U tanh(W h)). PLANT's learned attention is the first. Computed by
`plant.nn.planting.attending`.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.nn.attention import Packed, as_distribution, masked_softmax, pack, unpack
from plant.nn.dropout import ByteDropout
from plant.nn.forms import compiled_for
from plant.nn.layers import without_padding
from plant.nn.planting.attending import Attending, Heads, NoSources
from plant.nn.planting.batched import BatchLook, batched_logits, batched_loss
from plant.nn.planting.fused import fused_logits, fused_loss
from plant.tensors import Decoded, Encoded, is_traced
from plant.values import Dropout, Natural


class LabelAttention(nn.Module):
    """One query, one weight vector and one bias per label.

    `key_size` 0 is CAML's form, any other the width of LAAT's layer. With `start_at_prior` the biases start at the
    labels' log-odds in the fitted notes: otherwise the first epochs go into learning that codes are rare.
    With `segment` attention stays within runs of that many tokens, whose logits add up.
    """

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        key_size: Natural = 0,
        dropout: Dropout = 0.0,
        start_at_prior: bool = True,
        segment: Natural = 0,
    ) -> None:
        super().__init__()
        self.segment = segment
        self.dropout = ByteDropout(dropout)
        self.key = nn.Linear(input_size, key_size, bias=False) if key_size else None
        self.queries = nn.Parameter(torch.empty(n_labels, key_size or input_size))
        self.weights = nn.Parameter(torch.empty(n_labels, input_size))
        self.bias = nn.Parameter(prior_logits(frequencies, n_labels) if start_at_prior else torch.zeros(n_labels))
        for parameter in (self.queries, self.weights):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)

    def forward(self, encoded: Encoded) -> Decoded:
        return Decoded(self.evidence(encoded) + self.bias)

    def evidence(self, encoded: Encoded) -> Float[Tensor, "batch label"]:
        """The logits without the bias."""
        nothing = torch.zeros_like(self.bias)
        if is_traced() and not self.segment:
            return padded_logits(encoded, self._keys(encoded.states), self.queries, self.weights, nothing)
        packed = pack(encoded, segment=self.segment)
        if not compiled_for(self.bias.device):
            return batched_logits(packed, self.batch_look(packed), nothing)
        return fused_logits(Attending(NoSources()), packed.lengths, nothing, self.heads(packed))

    @property
    def prior(self) -> Float[Tensor, "label"]:
        """The bias: what a document without evidence gets."""
        return self.bias

    def loss(self, encoded: Encoded, targets: Float[Tensor, "batch label"]) -> Float[Tensor, ""]:
        """The mean binary cross-entropy, a third faster than through the logits."""
        packed = pack(encoded, segment=self.segment)
        if not compiled_for(self.bias.device):
            return batched_loss(packed, self.batch_look(packed), self.bias, targets=targets)
        return fused_loss(Attending(NoSources()), packed.lengths, self.bias, self.heads(packed), targets=targets)

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """The weights of the positions for some labels, a distribution over each document."""
        return as_distribution(unpack(self.attention(pack(encoded, segment=self.segment), labels), encoded.mask))

    def attention(self, packed: Packed, labels: Int[Tensor, "asked"]) -> Float[Tensor, "asked position"]:
        """The learned weights, a distribution over each segment."""
        scores = self.queries[labels] @ self._keys(packed.states).T
        return torch.cat([part.softmax(-1) for part in scores.split(packed.segments, dim=1)], dim=1)

    def heads(self, packed: Packed, scales: Float[Tensor, "source"] | None = None) -> Heads:
        """What the fused step needs; `scales` weigh sources of attention, the learned one first."""
        states = self.dropout(packed.states).to(self.weights.dtype)  # mixed precision ends here
        ones = states.new_ones(1) if scales is None else scales
        return Heads(states, self._keys(states), self.queries, self.weights, ones)

    def batch_look(self, packed: Packed, scales: Float[Tensor, "source"] | None = None, **sources: Any) -> BatchLook:
        """What the batched step needs; `sources` are those beside the learned one, which a caller may have removed."""
        if self.queries is None:
            assert scales is not None  # somebody weighs the other sources
            states = self.dropout(packed.states).to(self.weights.dtype)  # mixed precision ends here
            return BatchLook(states, self.weights, scales, **sources)
        heads = self.heads(packed, scales)
        return BatchLook(heads.states, heads.weights, heads.scales, heads.keys, heads.queries, **sources)

    def _keys(self, states: Float[Tensor, "*position size"]) -> Float[Tensor, "*position key"]:
        return states if self.key is None else self.key(states).tanh().to(self.queries.dtype)


def attended_logits(
    encoded: Encoded,
    queries: Float[Tensor, "label size"],
    weights: Float[Tensor, "label size"],
    bias: Float[Tensor, "label"],
) -> Float[Tensor, "batch label"]:
    """CAML's attention and output for queries and weights that come from elsewhere."""
    if is_traced():
        return padded_logits(encoded, encoded.states, queries, weights, bias)
    packed = pack(encoded, segment=0)
    states = packed.states.to(weights.dtype)
    ones = states.new_ones(1)
    if not compiled_for(bias.device):
        return batched_logits(packed, BatchLook(states, weights, ones, states, queries), bias)
    return fused_logits(Attending(NoSources()), packed.lengths, bias, Heads(states, states, queries, weights, ones))


def padded_logits(
    encoded: Encoded,
    keys: Float[Tensor, "batch time key"],
    queries: Float[Tensor, "label key"],
    weights: Float[Tensor, "label size"],
    bias: Float[Tensor, "label"],
) -> Float[Tensor, "batch label"]:
    """The same in operators that know no document's length, which is what an exported model is made of."""
    scores = (keys @ queries.T).transpose(1, 2)
    attention = masked_softmax(scores, encoded.mask.unsqueeze(1))
    return ((attention @ without_padding(encoded.states, encoded.mask)) * weights).sum(-1) + bias


def prior_logits(frequencies: Float[Tensor, "label"] | None, n_labels: int) -> Float[Tensor, "label"]:
    """The log-odds of each label among the fitted notes, zero where the frequencies are not known."""
    if frequencies is None:
        return torch.zeros(n_labels)
    return frequencies.to(torch.get_default_dtype()).clamp(1e-5, 1 - 1e-5).logit()
