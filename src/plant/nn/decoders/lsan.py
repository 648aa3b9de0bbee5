"""LSAN's decoder: each label looks through learned queries and through the words of its title, and mixes both."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plant.errors import RecipeError
from plant.nn.attention import masked_mean, masked_softmax
from plant.nn.decoders.label_attention import prior_logits
from plant.nn.layers import without_padding
from plant.tensors import Decoded, Encoded
from plant.text.vocab import PADDING
from plant.values import Count, small


class LSAN(nn.Module):
    """Label-specific attention; Xiao et al. 2019, with one classifier for each label's own vector, as in the paper.

    Features are a forward and a backward half. The title's scores are not normalised, so its branch is a product with
    the features' second moments and never needs a score per token. `descriptions` (token numbers, 0 pads) with
    `word_vectors` give the labels' first vectors; without them the vectors start at random.
    `chunk` labels are held in memory at a time.
    """

    starts_from = frozenset({"word_vectors"})
    tiny = small(attention=3, hidden=5, chunk=4)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        descriptions: Int[Tensor, "label word"] | None = None,
        word_vectors: Float[Tensor, "token size"] | None = None,
        attention: Count = 200,
        hidden: Count = 256,
        chunk: Count = 256,
    ) -> None:
        super().__init__()
        if input_size % 2:
            raise RecipeError(f"decoder 'lsan' halves the features, so their number must be even, not {input_size}")
        self.chunk = chunk
        self.project = nn.Linear(input_size, attention, bias=False)
        self.queries = nn.Parameter(torch.empty(n_labels, attention))
        nn.init.xavier_uniform_(self.queries)
        self.titles = nn.Parameter(_title_vectors(n_labels, input_size // 2, descriptions, word_vectors))
        fits = self.titles.shape[1] == input_size // 2
        self.fit_titles = nn.Identity() if fits else nn.Linear(self.titles.shape[1], input_size // 2, bias=False)
        self.trust_titles = nn.Linear(input_size, 1)
        self.trust_queries = nn.Linear(input_size, 1)
        last = nn.Linear(hidden, 1)
        nn.init.constant_(last.bias, float(prior_logits(frequencies, n_labels).mean()))  # codes are rare
        self.output = nn.Sequential(nn.Linear(input_size, hidden), nn.ReLU(), last)

    def forward(self, encoded: Encoded) -> Decoded:
        states = without_padding(encoded.states, encoded.mask)
        keys = self.project(states).tanh()
        moments = _moments(states)
        chunks = (torch.split(rows, self.chunk) for rows in (self.queries, self.fit_titles(self.titles)))
        parts = [
            checkpoint(self._logits, queries, titles, states, keys, moments, encoded.mask, use_reentrant=False)
            for queries, titles in zip(*chunks, strict=True)
        ]
        return Decoded(torch.cat(parts, dim=1))

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """The learned queries' attention; the titles' scores are no distribution."""
        keys = self.project(without_padding(encoded.states, encoded.mask)).tanh()
        return _attention(self.queries[labels], keys, encoded.mask)

    def _logits(
        self, queries: Tensor, titles: Tensor, states: Tensor, keys: Tensor, moments: Tensor, mask: Tensor
    ) -> Float[Tensor, "batch label"]:
        by_query = _attention(queries, keys, mask) @ states  # [batch, label, size]
        by_title = torch.einsum("lh,bdhk->bldk", titles, moments).flatten(2)
        title, query = self.trust_titles(by_title).sigmoid(), self.trust_queries(by_query).sigmoid()
        mixed = (title * by_title + query * by_query) / (title + query)
        return self.output(mixed).squeeze(-1)


def _attention(
    queries: Float[Tensor, "label key"], keys: Float[Tensor, "batch time key"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch label time"]:
    return masked_softmax(queries @ keys.transpose(1, 2), mask.unsqueeze(1))


def _moments(states: Float[Tensor, "batch time size"]) -> Float[Tensor, "batch direction half half"]:
    """The sum over time of h h^T, for each direction's half of the features."""
    halves = states.view(*states.shape[:2], 2, -1)
    return torch.einsum("btdh,btdk->bdhk", halves, halves)


def _title_vectors(
    n_labels: int, size: int, descriptions: Tensor | None, word_vectors: Tensor | None
) -> Float[Tensor, "label size"]:
    if descriptions is None or word_vectors is None:
        return nn.init.xavier_uniform_(torch.empty(n_labels, size))
    return masked_mean(word_vectors[descriptions], descriptions != PADDING)
