"""DiscNet's decoder: labels look for clues among words and among sentences, with vectors that descriptions inform.

Zhang et al. 2022, "Automatic ICD coding exploiting discourse structure and reconciled code embeddings". Words h_i are a
layer over the encoder's states; a sentence is x_s = ReLU(max of its words' inputs + softmax(C m_s) C), where m_s joins
the forward state of its last and the backward state of its first word, and a GRU over the sentences gives h_s.
clue_l = max of both attentions' vectors, z_l = tanh(W c_l) . ReLU(W' clue_l) + b_l.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plant.errors import RecipeError
from plant.nn.attention import masked_max, masked_softmax
from plant.nn.bidirectional import Bidirectional
from plant.nn.decoders.label_attention import prior_logits
from plant.nn.layers import WordEmbedding, without_padding
from plant.tensors import Decoded, Encoded
from plant.text.vocab import PADDING
from plant.values import Count, Natural, small

TRUST = "description_trust"
LABELS_AT_A_TIME = 256  # of similar lengths, so that little padding is read


class DiscNet(nn.Module):
    """Clues of words and of sentences; with `reconciled` labels are known by their descriptions too.

    The first `inputs` features of a state are what the encoder read, the others its forward and backward half; with 0
    all features are both. A document whose sentences are not known is one sentence.
    """

    reads_structure = True
    starts_from = frozenset({"word_vectors"})
    tiny = small(size=8, chunk=4)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        descriptions: Int[Tensor, "label word"],
        *,
        vocab_size: int,
        word_vectors: Float[Tensor, "token width"] | None = None,
        frequencies: Float[Tensor, "label"] | None = None,
        inputs: Natural = 0,
        size: Count = 100,
        reconciled: bool = True,
        chunk: Count = 256,
    ) -> None:
        super().__init__()
        if (input_size - inputs) % 2 or inputs >= input_size:
            raise RecipeError(f"decoder 'discnet' halves {input_size} - {inputs} features, which must be even and some")
        self.inputs, self.chunk, self.reconciled = inputs, chunk, reconciled
        self.free = nn.Parameter(torch.randn(n_labels, size) * size**-0.5)
        given = (descriptions, vocab_size, word_vectors)
        self.reconcile = Reconciled(*given, size=size) if reconciled else None
        self.word = nn.Linear(input_size - inputs, size)
        self.span, self.lead = nn.Linear(input_size - inputs, size), nn.Linear(inputs or input_size, size)
        self.sentences = Bidirectional(nn.GRU, size, size, 1)
        self.sentence = nn.Linear(2 * size, size)
        self.clue, self.weigh = nn.Linear(size, size), nn.Linear(size, size)
        self.bias = nn.Parameter(prior_logits(frequencies, n_labels))

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({TRUST}) if self.reconciled else frozenset()

    def forward(self, encoded: Encoded) -> Decoded:
        labels, trust = self._labels()
        words, sentences, present, _ = self._read(encoded, labels)
        rows = zip(labels.split(self.chunk), self.weigh(labels).tanh().split(self.chunk), strict=True)
        parts = [
            checkpoint(self._logits, *some, words, encoded.mask, sentences, present, use_reentrant=False)
            for some in rows
        ]
        extras = {TRUST: trust} if trust is not None and self.training else {}
        return Decoded(torch.cat(parts, dim=1) + self.bias, extras)

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """The mean of where labels look among words and among sentences, whose words share evenly."""
        every, _ = self._labels()
        words, sentences, present, number = self._read(encoded, every)
        by_word = masked_softmax(every[labels] @ words.transpose(1, 2), encoded.mask.unsqueeze(1))
        by_sentence = masked_softmax(every[labels] @ sentences.transpose(1, 2), present.unsqueeze(1))
        counts = present.new_zeros(present.shape, dtype=by_word.dtype).scatter_add(1, number, encoded.mask.to(by_word))
        shares = by_sentence / counts.clamp(min=1).unsqueeze(1)
        spread = shares.gather(2, number.unsqueeze(1).expand(-1, len(labels), -1))
        return torch.where(encoded.mask.unsqueeze(1), (by_word + spread) / 2, 0.0)

    def _labels(self) -> tuple[Float[Tensor, "label size"], Float[Tensor, "label"] | None]:
        return (self.free, None) if self.reconcile is None else self.reconcile(self.free)

    def _read(
        self, encoded: Encoded, labels: Float[Tensor, "label size"]
    ) -> tuple[Tensor, Tensor, Bool[Tensor, "batch sentence"], Int[Tensor, "batch time"]]:
        """The words and the sentences, which sentences there are, and the sentence of each word."""
        states = without_padding(encoded.states, encoded.mask).to(self.bias.dtype)
        read, halves = states[:, :, : self.inputs or None], states[:, :, self.inputs :]
        number = _sentence_numbers(encoded)
        ends = Ends.of(number, encoded.mask)
        ahead, back = halves.chunk(2, dim=2)
        spans = self.span(torch.cat([_at(ahead, ends.last), _at(back, ends.first)], dim=2))
        largest = self.lead(_largest(read, number, encoded.mask, ends.present.shape[1]))
        sentences = (largest + (spans @ labels.T).softmax(2) @ labels).relu()
        return self.word(halves), self.sentence(self.sentences(sentences, ends.present)), ends.present, number

    def _logits(
        self, labels: Tensor, weights: Tensor, words: Tensor, mask: Tensor, sentences: Tensor, present: Tensor
    ) -> Float[Tensor, "batch label"]:
        by_word = masked_softmax(labels @ words.transpose(1, 2), mask.unsqueeze(1)) @ words
        by_sentence = masked_softmax(labels @ sentences.transpose(1, 2), present.unsqueeze(1)) @ sentences
        return (weights * self.clue(torch.maximum(by_word, by_sentence)).relu()).sum(2)


class Reconciled(nn.Module):
    """c_l = tanh(W LayerNorm(g d_l + f_l / |f_l|)), d_l what a GRU makes of the description, g = sigmoid(U [d_l; f_l]).

    A label without a description has d_l = 0.
    """

    def __init__(self, descriptions: Tensor, vocab_size: int, word_vectors: Tensor | None, *, size: int) -> None:
        super().__init__()
        self.descriptions: Tensor
        self.register_buffer("descriptions", descriptions.long(), persistent=False)
        self.words = WordEmbedding(vocab_size, size=size, word_vectors=word_vectors)
        self.recurrent = Bidirectional(nn.GRU, self.words.size, size, 1)
        self.describe, self.gate = nn.Linear(2 * size, size), nn.Linear(2 * size, size)
        self.norm, self.join = nn.LayerNorm(size), nn.Linear(size, size)

    def forward(self, free: Float[Tensor, "label size"]) -> tuple[Float[Tensor, "label size"], Float[Tensor, "label"]]:
        """The labels' vectors, and how far each trusts its description: the mean square of its gate."""
        lengths = (self.descriptions != PADDING).sum(1)
        order = lengths.argsort(stable=True)
        largest = torch.cat([self._largest(rows) for rows in order.split(LABELS_AT_A_TIME)])[order.argsort()]
        described = torch.where(lengths.unsqueeze(1) > 0, self.describe(largest), 0.0)
        gate = self.gate(torch.cat([described, free], dim=1)).sigmoid()
        joined = self.norm(gate * described + F.normalize(free, dim=1))
        return self.join(joined).tanh(), gate.square().mean(1)

    def _largest(self, labels: Int[Tensor, "some"]) -> Float[Tensor, "some size"]:
        """The largest features over the words of some labels' descriptions; those with as many cost least together."""
        words = self.descriptions[labels]
        words = words[:, : max(1, int((words != PADDING).sum(1).max()))]
        mask = words != PADDING
        return masked_max(self.recurrent(self.words(words, mask), mask), mask)


class Ends:
    """Where the sentences of a batch begin and end."""

    def __init__(self, first: Tensor, last: Tensor, present: Tensor) -> None:
        self.first, self.last, self.present = first, last, present

    @staticmethod
    def of(number: Int[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]) -> "Ends":
        """The first and the last word of each sentence, and which sentences a document has."""
        shape = (len(number), int(number.max()) + 1 if number.numel() else 1)
        place = torch.arange(number.shape[1], device=number.device).expand(number.shape)
        late, early = torch.where(mask, place, -1), torch.where(mask, place, number.shape[1])
        last = place.new_full(shape, -1).scatter_reduce(1, number, late, "amax")
        first = place.new_full(shape, number.shape[1]).scatter_reduce(1, number, early, "amin")
        present = last >= 0
        return Ends(torch.where(present, first, 0), last.clamp(min=0), present)


def _sentence_numbers(encoded: Encoded) -> Int[Tensor, "batch time"]:
    if encoded.structure is None:
        return torch.zeros_like(encoded.tokens)
    return torch.where(encoded.mask, encoded.structure.sentences, 0)


def _at(states: Float[Tensor, "batch time size"], places: Int[Tensor, "batch sentence"]) -> Tensor:
    return states.gather(1, places.unsqueeze(2).expand(-1, -1, states.shape[2]))


def _largest(states: Tensor, number: Tensor, mask: Tensor, n_sentences: int) -> Float[Tensor, "batch sentence size"]:
    """The largest features over the words of each sentence; zero where there are none."""
    real = states.masked_fill(~mask.unsqueeze(2), -torch.inf)
    empty = states.new_full((len(states), n_sentences, states.shape[2]), -torch.inf)
    largest = empty.scatter_reduce(1, number.unsqueeze(2).expand(states.shape), real, "amax")
    return torch.where(largest > -torch.inf, largest, 0.0)
