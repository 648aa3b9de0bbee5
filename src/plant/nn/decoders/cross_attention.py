"""Cross attention of labels to the text: the decoder of PLM-CA (Edin et al. 2024)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plant.nn.attention import masked_softmax
from plant.nn.dropout import ByteDropout
from plant.nn.layers import without_padding
from plant.tensors import Decoded, Encoded
from plant.values import Count, Dropout, small


class CrossAttention(nn.Module):
    """Keys and values are projections of the states, every label has a query, and all share one output vector.

    z_l = w . LayerNorm(softmax(q_l K' / sqrt(size)) V) + b. Labels are worked through `chunk` at a time, and computed
    again in the backward pass, so that no more than a chunk's vectors are held for each document.
    """

    tiny = small(chunk=4)

    def __init__(self, input_size: int, n_labels: int, *, dropout: Dropout = 0.0, chunk: Count = 1024) -> None:
        super().__init__()
        self.key, self.value = nn.Linear(input_size, input_size), nn.Linear(input_size, input_size)
        self.queries = nn.Parameter(torch.empty(n_labels, input_size))
        nn.init.normal_(self.queries)
        self.norm = nn.LayerNorm(input_size)
        self.output = nn.Linear(input_size, 1)
        self.dropout, self.chunk = ByteDropout(dropout), chunk

    def forward(self, encoded: Encoded) -> Decoded:
        states = self.dropout(without_padding(encoded.states, encoded.mask)).to(self.queries.dtype)
        keys, values = self.key(states), self.value(states)
        mask = encoded.mask | ~encoded.mask.any(1, keepdim=True)  # a document without tokens looks at zeros
        parts = [checkpoint(self._logits, some, keys, values, mask, use_reentrant=False) for some in self._chunks()]
        return Decoded(torch.cat(parts, dim=1))

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where each label looks, a distribution over the document."""
        keys = self.key(without_padding(encoded.states, encoded.mask).to(self.queries.dtype))
        scores = self.queries[labels] @ keys.transpose(1, 2) / keys.shape[2] ** 0.5
        return masked_softmax(scores, encoded.mask.unsqueeze(1).expand(scores.shape))

    def _chunks(self) -> tuple[Tensor, ...]:
        return self.queries.split(self.chunk)

    def _logits(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Float[Tensor, "batch label"]:
        asked = queries.expand(len(keys), -1, -1)
        found = F.scaled_dot_product_attention(asked, keys, values, attn_mask=mask.unsqueeze(1))
        return self.output(self.norm(found)).squeeze(-1)
