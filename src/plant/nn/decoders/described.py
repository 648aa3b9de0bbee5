"""DR-CAML's decoder: label attention whose weights are drawn towards the labels' descriptions in training."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.nn.attention import masked_max
from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.layers import Convolution, WordEmbedding
from plant.tensors import Decoded, Encoded
from plant.text.vocab import PADDING
from plant.values import Count, Dropout, small

LABELS_AT_A_TIME = 64  # of similar lengths, so that little padding is read


class DescribedAttention(nn.Module):
    """CAML's attention, and a small text-CNN that reads each label's description; Mullenbach et al. 2018.

    In training it says how far each label's weights lie from its description's vector (the mean square of their
    difference), and loss `described-bce` draws them together; predictions do not need it. A label without a
    description has no distance. `descriptions` are token numbers, 0 pads.
    """

    starts_from = frozenset({"word_vectors"})
    gives = frozenset({"description_distance"})
    tiny = small(embedding=5, kernel=4)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        descriptions: Int[Tensor, "label word"],
        *,
        vocab_size: int,
        frequencies: Float[Tensor, "label"] | None = None,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: Count = 100,
        kernel: Count = 10,
        dropout: Dropout = 0.2,
    ) -> None:
        super().__init__()
        self.descriptions: Tensor
        self.register_buffer("descriptions", descriptions.long(), persistent=False)
        self.attention = LabelAttention(input_size, n_labels, frequencies=frequencies)
        self.words = WordEmbedding(vocab_size, size=embedding, word_vectors=word_vectors, dropout=dropout)
        self.convolution = Convolution(self.words.size, input_size, kernel=kernel)
        self.describe = nn.Linear(input_size, input_size)

    def forward(self, encoded: Encoded) -> Decoded:
        logits = self.attention(encoded).logits
        return Decoded(logits, {"description_distance": self.distance()}) if self.training else Decoded(logits)

    def distance(self) -> Float[Tensor, "label"]:
        """How far each label's weights lie from its description."""
        lengths = (self.descriptions != PADDING).sum(1)
        order = lengths.argsort(descending=True)
        described = torch.cat([self._described(rows) for rows in order.split(LABELS_AT_A_TIME)])
        apart = (self.attention.weights[order] - described).square().mean(1)
        return torch.where(lengths > 0, apart[order.argsort()], 0.0)

    def _described(self, labels: Int[Tensor, "some"]) -> Float[Tensor, "some size"]:
        """The vectors of some labels' descriptions; labels with as many words cost least together."""
        words = self.descriptions[labels]
        mask = words != PADDING
        longest = max(1, int(mask.sum(1).max()))
        words, mask = words[:, :longest], mask[:, :longest]
        features = self.convolution(self.words(words, mask), mask).tanh()
        return self.describe(masked_max(features, mask))

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where each label looks."""
        return self.attention.attend(encoded, labels)
