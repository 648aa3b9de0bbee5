"""Interaction matching: a label is there when one of its names stands in the text, word for word or nearly so.

The published form slides the words of a label's title over the document and takes the mean cosine of word vectors; the
best place is the score, and the evidence. Here a label has several names, words may stand apart (`slack`), a name
inside a longer match does not count, and each name has a weight of its own that starts at what the fitted notes say of
it. See docs/models/interaction-matching.md.
"""

from dataclasses import asdict
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from plant.nn.attention import as_distribution
from plant.nn.decoders.label_attention import prior_logits
from plant.nn.matching.kept import KeptMatches, Matches, joined
from plant.nn.matching.letters import letter_vectors
from plant.nn.matching.names import Names
from plant.nn.matching.placed import best_per_label, matches_in, placed
from plant.nn.matching.search import Matching, Phrases, Similar, phrases_of, similar_words
from plant.nn.matching.titles import names_from
from plant.nn.parts.protocols import ArrayForm
from plant.store.ragged import offsets
from plant.tensors import Decoded, Encoded
from plant.text.vocab import UNKNOWN, Vocab
from plant.values import Amount, Cosine, Count, Natural, small

Form = Literal["weighted", "sigmoid", "plain"]
BLOCK = 2048  # tokens of the vocabulary that are compared with the words of names at once


class Places(NamedTuple):
    """The best match of each label found in each document of a batch, and its pairs of words that face each other."""

    rows: Int[Tensor, "match"]
    labels: Int[Tensor, "match"]
    names: Int[Tensor, "match"]
    lengths: Int[Tensor, "match"]  # of the names
    pair_match: Int[Tensor, "pair"]
    pair_word: Int[Tensor, "pair"]
    pair_position: Int[Tensor, "pair"]


class Interaction(nn.Module):
    """Logits from the best match of each label's names; the encoder's states are not looked at.

    `form`: "weighted" adds a learned weight of the name to `scale` times what the match lacks, "sigmoid" is the logit
    as printed (the mean cosine itself), "plain" has the mean cosine as the probability. A label without a match has
    the log-odds of its frequency, lowered by a learned `absent`. Vectors of words start from `word_vectors`, from
    their letters where a `vocab` is given, or at random; they are learned only with `tune`. In training, names that
    coders marked in a single note are left out: in that note they would always be right.
    """

    evident = True  # its attention is the evidence itself
    takes_added = True  # the names, words and labels that were added after training
    starts_from = frozenset({"word_vectors"})
    tiny = small(size=4)

    def __init__(
        self,
        vocab_size: int,
        n_labels: int,
        *,
        descriptions: Int[Tensor, "label word"] | None = None,
        names: Names | None = None,
        vocab: Vocab | None = None,
        word_vectors: Float[Tensor, "token size"] | None = None,
        frequencies: Float[Tensor, "label"] | None = None,
        form: Form = "weighted",
        size: Count = 128,
        tune: bool = False,
        slack: Natural = Matching.slack,
        threshold: Cosine = Matching.threshold,
        least: Cosine = Matching.least,
        longest: bool = Matching.longest,
        covering: float = Matching.covering,
        scale: Amount = 16.0,
        absent: float = -3.0,
    ) -> None:
        super().__init__()
        self.given_names = names is not None
        if names is None:
            names = names_from(torch.zeros(n_labels, 1) if descriptions is None else descriptions, n_words=vocab_size)
        self.form, self.matching = form, Matching(slack, threshold, least, longest, covering)
        self._cached: Similar | None = None
        self._kept = KeptMatches()
        self.register_load_state_dict_post_hook(_forget)  # type: ignore[no-untyped-call]
        self.phrases: Phrases = phrases_of(names)
        self.name_labels, self.several = names.labels, names.support != 1
        n_words = vocab_size if vocab is None else len(vocab)
        self.words: Tensor
        self.weights: Tensor
        self.scale: Tensor
        self.prior: Tensor
        self._keep("words", _vectors(n_words, size, word_vectors, vocab), learned=tune)
        self._keep("weights", torch.from_numpy(names.log_odds.copy()), learned=form == "weighted")
        self._keep("scale", torch.tensor(scale), learned=form == "weighted")
        self._keep("prior", prior_logits(frequencies, n_labels), learned=False)
        self.absent = nn.Parameter(torch.tensor(absent))

    def forward(self, encoded: Encoded) -> Decoded:
        return Decoded(self.prior + self.evidence(encoded))

    def evidence(self, encoded: Encoded) -> Float[Tensor, "batch label"]:
        """How much each label's best match raises its log-odds above those of its frequency."""
        places = self.places(encoded)
        index = (places.rows, places.labels)
        found = self._logits(places, encoded) - self.prior[places.labels]
        shape = (len(encoded.tokens), len(self.prior))
        return self.absent.expand(shape).index_put(index, found)

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """The words of each label's best match, by similarity; nothing for a label without one."""
        asked, column = labels.unique(return_inverse=True)
        places = self.places(encoded, asked)
        spread = self.words.new_zeros(len(encoded.tokens), len(asked), encoded.tokens.shape[1])
        own = torch.searchsorted(asked, places.labels)[places.pair_match]
        index = (places.rows[places.pair_match], own, places.pair_position)
        spread.index_put_(index, self._similarities(places, encoded), accumulate=True)
        return as_distribution(spread[:, column])

    @torch.no_grad()
    def places(self, encoded: Encoded, labels: Int[Tensor, "asked"] | None = None) -> Places:
        """The best match of each label, or of each of some labels, in each document."""
        host = encoded.host
        tokens = [row[mask].numpy() for row, mask in zip(host.tokens, host.mask, strict=True)]
        matches = self._matches(tokens)
        best = self._best_per_label(matches, None if labels is None else labels.cpu().numpy())
        arrays = placed(matches, best, self.phrases, self.name_labels)
        return Places(*(torch.from_numpy(array).to(encoded.tokens.device) for array in arrays))

    def array_form(self) -> ArrayForm | None:
        """What `plant.nn.reading.names` must know beside the weights: which words are like which, once and for all."""
        if not self._fixed or not self.given_names:
            return None
        facts = {"form": "names", "logit": self.form, "matching": asdict(self.matching)}
        return ArrayForm(facts, self._similar()._asdict())

    def _keep(self, name: str, values: Tensor, *, learned: bool) -> None:
        if learned:
            self.register_parameter(name, nn.Parameter(values))
        else:
            self.register_buffer(name, values)

    def _matches(self, tokens: list[NDArray[np.int64]]) -> Matches:
        """All names found in documents; with vectors that are not learned, those of earlier readings are kept."""
        if self._fixed:
            kind = "training" if self.training else "reading"
            return joined(
                [self._kept.of(row, kind, partial(self._in_document, self._similar(), row)) for row in tokens]
            )
        every, inverse = np.unique(np.concatenate(tokens), return_inverse=True)
        table = similar_words(self._table(every), threshold=self.matching.threshold)
        numbered = np.split(inverse, np.cumsum([len(row) for row in tokens])[:-1])
        return joined([self._in_document(table, row) for row in numbered])

    @property
    def _fixed(self) -> bool:
        """Whether words are like each other once and for all."""
        return not isinstance(self.words, nn.Parameter) and self.matching.threshold > 0

    def _similar(self) -> Similar:
        """Which words of names are like which tokens, of the whole vocabulary: only loading changes it."""
        if self._cached is None:
            self._cached = self._all_similar()
        return self._cached

    def _all_similar(self) -> Similar:
        numbers = np.arange(len(self.words)).reshape(-1)
        parts = [
            similar_words(self._table(block), threshold=self.matching.threshold)
            for block in np.split(numbers, range(BLOCK, len(numbers), BLOCK))
        ]
        counts = np.concatenate([np.diff(part.starts) for part in parts])
        words, values = (np.concatenate([part[field] for part in parts]) for field in (1, 2))
        return Similar(offsets(counts), words, values)

    def _table(self, tokens: NDArray[np.int64]) -> NDArray[np.floating]:
        """Cosines of names' words and tokens: exactly 1 for the same word, 0 for unknown ones."""
        words, distinct = self.words.detach().cpu(), self.phrases.distinct
        table = (F.normalize(words[distinct], dim=1) @ F.normalize(words[tokens], dim=1).T).numpy()
        _, word, token = np.intersect1d(distinct, tokens, assume_unique=True, return_indices=True)
        table[word, token] = 1
        table[distinct <= UNKNOWN] = 0
        table[:, tokens <= UNKNOWN] = 0
        return table

    def _in_document(self, similar: Similar, tokens: NDArray[np.int64]) -> Matches:
        return matches_in(similar, tokens, self.phrases, self.matching, self.several if self.training else None)

    def _best_per_label(self, matches: Matches, asked: NDArray[np.int64] | None) -> NDArray[np.intp]:
        """The best match of each label in each document, by document and label; the first name of equals."""
        names, values = matches.found.names, matches.found.scores
        if self.form == "weighted":
            values = self.weights.detach().cpu().numpy()[names] + self.scale.item() * (values - 1)
        return best_per_label(matches, values, self.name_labels[names], asked)

    def _logits(self, places: Places, encoded: Encoded) -> Float[Tensor, "match"]:
        similar = self._similarities(places, encoded)
        sums = similar.new_zeros(len(places.names)).index_add(0, places.pair_match, similar)
        scores = sums / places.lengths
        if self.form == "sigmoid":
            return scores
        if self.form == "plain":
            return scores.clamp(1e-6, 1 - 1e-6).logit()
        return self.weights[places.names] + self.scale * (scores - 1)

    def _similarities(self, places: Places, encoded: Encoded) -> Float[Tensor, "pair"]:
        """The cosines of the pairs of the best matches: the only ones through which gradients flow."""
        tokens = encoded.tokens[places.rows[places.pair_match], places.pair_position]
        cosines = F.cosine_similarity(self.words[places.pair_word], self.words[tokens], dim=1)
        return torch.where(places.pair_word == tokens, 1.0, cosines)


def _forget(module: nn.Module, keys: object) -> None:
    """What was worked out from other vectors than those just loaded."""
    assert isinstance(module, Interaction)
    module._cached = None
    module._kept.forget()


def _vectors(n_words: int, size: int, given: Tensor | None, vocab: Vocab | None) -> Float[Tensor, "token size"]:
    if vocab is None:
        return torch.randn(n_words, size) if given is None else given.clone()
    letters = torch.from_numpy(letter_vectors(vocab.tokens, size if given is None else given.shape[1]))
    return letters if given is None else torch.cat([given, letters[len(given) :]])
