"""AttentionXML's decoder: every label looks with a query of its own, and all share one network of two layers.

You et al. 2019, "AttentionXML: label tree-based attention-aware deep model". The plain form, one level over all labels:
z_l = w . ReLU(W v_l + c) + b with v_l = sum_i softmax_i(u_l . h_i) h_i.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plant.nn.attention import masked_softmax
from plant.nn.decoders.label_attention import prior_logits
from plant.nn.dropout import ByteDropout
from plant.nn.layers import without_padding
from plant.tensors import Decoded, Encoded
from plant.values import Count, Dropout, small


class AttentionXML(nn.Module):
    """One query per label, one classifier for all; `chunk` labels are held in memory at a time.

    With `from_prior` logits are counted from each label's log-odds in the fitted notes, which stay as they are: a
    classifier that labels share learns from few notes neither what a label looks for nor how frequent it is.
    """

    tiny = small(hidden=16, chunk=4)  # of five units all may be off, and nothing learns

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        hidden: Count = 256,
        dropout: Dropout = 0.5,
        chunk: Count = 256,
        from_prior: bool = False,
    ) -> None:
        super().__init__()
        self.dropout, self.chunk = ByteDropout(dropout), chunk
        self.queries = nn.Parameter(nn.init.xavier_uniform_(torch.empty(n_labels, input_size)))
        last = nn.Linear(hidden, 1)
        prior = prior_logits(frequencies, n_labels)
        nn.init.constant_(last.bias, 0.0 if from_prior else float(prior.mean()))  # codes are rare
        self.prior: Tensor
        self.register_buffer("prior", prior if from_prior else torch.zeros(n_labels), persistent=False)
        self.output = nn.Sequential(nn.Linear(input_size, hidden), nn.ReLU(), last)

    def forward(self, encoded: Encoded) -> Decoded:
        states = self.dropout(without_padding(encoded.states, encoded.mask)).to(self.queries.dtype)
        rows = self.queries.split(self.chunk)
        parts = [checkpoint(self._logits, some, states, encoded.mask, use_reentrant=False) for some in rows]
        return Decoded(torch.cat(parts, dim=1) + self.prior)

    def score(self, encoded: Encoded, labels: Int[Tensor, "batch asked"]) -> Float[Tensor, "batch asked"]:
        """The logits of some labels of each document, as `forward` gives them for all."""
        states = self.dropout(without_padding(encoded.states, encoded.mask)).to(self.queries.dtype)
        looks = masked_softmax(self.queries[labels] @ states.transpose(1, 2), encoded.mask.unsqueeze(1))
        return self.output(looks @ states).squeeze(2) + self.prior[labels]

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where each label looks."""
        return _looks(self.queries[labels], without_padding(encoded.states, encoded.mask), encoded.mask)

    def _logits(self, queries: Tensor, states: Tensor, mask: Tensor) -> Float[Tensor, "batch label"]:
        return self.output(_looks(queries, states, mask) @ states).squeeze(2)


def _looks(
    queries: Float[Tensor, "label size"], states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch label time"]:
    return masked_softmax(queries @ states.to(queries.dtype).transpose(1, 2), mask.unsqueeze(1))
