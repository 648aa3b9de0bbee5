"""FastText's features: words, and word n-grams hashed into buckets."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plant.nn.dropout import ByteDropout
from plant.nn.layers import WordEmbedding
from plant.tensors import Batch, Encoded
from plant.values import Count, Dropout, small

HASH_FACTOR = 116_049_371  # a prime well above any vocabulary, so that the order of words matters


class Embedding(nn.Module):
    """Each position holds the sum of its word's vector and of the vectors of the n-grams that begin there.

    Joulin et al. 2017, "Bag of tricks for efficient text classification". The states are scaled by words / features
    of their document, so that their mean over time is the mean over all words and n-grams, which is FastText's
    document vector; its end-of-sentence word is left out.
    """

    starts_from = frozenset({"word_vectors"})
    tiny = small(size=8, ngrams=3, buckets=50)

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        size: Count = 100,
        ngrams: Count = 1,
        buckets: Count = 2_000_000,
        frozen: bool = False,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(vocab_size, size=size, word_vectors=word_vectors, frozen=frozen)
        self.size = self.words.size
        if word_vectors is None:
            nn.init.uniform_(self.words.table.weight, -1 / self.size, 1 / self.size)
        self.lengths = range(2, ngrams + 1)
        self.buckets = nn.Embedding(buckets, self.size) if self.lengths else None
        if self.buckets is not None:
            nn.init.uniform_(self.buckets.weight, -1 / self.size, 1 / self.size)
        self.dropout = ByteDropout(dropout)

    def forward(self, batch: Batch) -> Encoded:
        states = self.words(batch.tokens, batch.mask)
        features = batch.mask.sum(1)
        if self.buckets is not None:
            for length in self.lengths:
                whole = _shifted(batch.mask, length - 1)
                hashed = hash_ngrams(batch.tokens, length) % self.buckets.num_embeddings
                states = states + torch.where(whole.unsqueeze(-1), self.buckets(hashed), 0.0)
                features = features + whole.sum(1)
        scale = batch.mask.sum(1).to(states.dtype) / features.clamp(min=1)
        return Encoded(self.dropout(states * scale[:, None, None]), batch.tokens, batch.mask)


def hash_ngrams(tokens: Int[Tensor, "batch time"], length: int) -> Int[Tensor, "batch time"]:
    """A number for the `length` tokens that begin at each position; overflow wraps, which a hash may."""
    hashed = tokens.long()
    for step in range(1, length):
        hashed = hashed * HASH_FACTOR + _shifted(tokens, step)
    return hashed


def _shifted(values: Tensor, steps: int) -> Tensor:
    """What stands `steps` later in time; zero beyond the end."""
    kept: Bool[Tensor, "batch time"] | Int[Tensor, "batch time"] = values[:, steps:]
    return F.pad(kept, (0, values.shape[1] - kept.shape[1]))
