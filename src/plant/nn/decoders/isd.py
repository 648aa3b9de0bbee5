"""ISD's decoder: a few slots that all labels share read the text, and labels look at the slots alone.

Zhou et al. 2021, "Automatic ICD coding via interactive shared representation networks with self-distillation". In
training a teacher, the same network, reads the titles of the true labels instead of the note; two tasks on lists of
labels (which one is missing, which one is wrong) teach what goes together. Loss `self-distilled` weighs all of it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from plant.nn.decoders.label_attention import prior_logits
from plant.nn.decoders.label_vectors import LabelVectors
from plant.nn.layers import without_padding
from plant.nn.parts.protocols import Encoder
from plant.tensors import Batch, Decoded, Encoded, Subwords
from plant.values import Count, Dropout, small


class Slots(NamedTuple):
    """What the slots found, and where each of them looked first."""

    states: Float[Tensor, "batch slot size"]
    looks: Float[Tensor, "batch slot time"]


class ISD(nn.Module):
    """Slots C attend the tokens, then go through `layers` of a transformer's decoder; every label compares itself to C.

    z1_l = max_c e_l . c + b_l and z2_l = e_l . sum_c softmax_c(e_l . c / sqrt(size)) c + b_l; the probability is the
    mean of both sigmoids. `descriptions` with `word_vectors` give the labels' first vectors. `most` labels of a list
    are looked at by the two tasks.
    """

    starts_from = frozenset({"word_vectors"})
    gives = frozenset({"student", "teacher", "slot_distance", "list_loss"})
    tiny = small(slots=3, layers=1, feedforward=8, dropout=0.0)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        encoder: nn.Module,
        titles: Batch,
        descriptions: Int[Tensor, "label word"] | None = None,
        word_vectors: Float[Tensor, "token size"] | None = None,
        frequencies: Float[Tensor, "label"] | None = None,
        slots: Count = 64,
        layers: Count = 2,
        feedforward: Count = 1024,
        dropout: Dropout = 0.1,
        most: Count = 40,
    ) -> None:
        super().__init__()
        self.titles = _Titles(encoder, titles)
        self.most = most
        self.slots = nn.Parameter(torch.randn(slots, input_size) * input_size**-0.5)
        self.share = nn.MultiheadAttention(input_size, 1, dropout=dropout, batch_first=True)
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(input_size, 1, feedforward, dropout, batch_first=True) for _ in range(layers)
        )
        self.labels = LabelVectors(n_labels, input_size, descriptions=descriptions, word_vectors=word_vectors)
        self.bias = nn.Parameter(prior_logits(frequencies, n_labels))
        self.blank = nn.Parameter(torch.randn(input_size) * input_size**-0.5)
        self.wrong = nn.Linear(input_size, 1)

    def forward(self, encoded: Encoded) -> Decoded:
        return Decoded(mean_of_both(self._both(self._read(encoded).states)))

    def taught(self, encoded: Encoded, targets: Float[Tensor, "batch label"]) -> Decoded:
        """The logits, those of both heads for note and teacher, how far their slots lie apart, and the tasks' loss."""
        student, teacher = self._read(encoded).states, self._read(self.titles.of(targets)).states
        heads = self._both(student)
        extras: Mapping[str, Tensor] = {
            "student": heads,
            "teacher": self._both(teacher),
            "slot_distance": 1 - _matched_cosines(student, teacher).mean(),
            "list_loss": self._list_loss(encoded, targets),
        }
        return Decoded(mean_of_both(heads), extras)

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where the slots look that a label looks at."""
        read = self._read(encoded)
        weights = _scaled(read.states @ self.labels()[labels].T, read.states.shape[2]).softmax(
            1
        )  # [batch, slot, asked]
        return torch.einsum("bsl,bst->blt", weights, torch.where(encoded.mask.unsqueeze(1), read.looks, 0.0))

    def _read(self, encoded: Encoded) -> Slots:
        tokens, hidden = _readable(encoded)
        tokens = tokens.to(self.slots.dtype)
        slots, looks = self.share(self.slots.expand(len(tokens), -1, -1), tokens, tokens, key_padding_mask=hidden)
        for layer in self.layers:
            slots = layer(slots, tokens, memory_key_padding_mask=hidden)
        return Slots(slots, looks)

    def _both(self, slots: Float[Tensor, "batch slot size"]) -> Float[Tensor, "batch two label"]:
        """The logits of both heads; every label needs its products with the slots, and nothing else."""
        products = slots @ self.labels().T
        attended = (_scaled(products, slots.shape[2]).softmax(1) * products).sum(1)
        return torch.stack([products.amax(1), attended], dim=1) + self.bias

    def _list_loss(self, encoded: Encoded, targets: Float[Tensor, "batch label"]) -> Float[Tensor, ""]:
        """The mean loss of finding the label that was taken out of a true list, and the one that was put in."""
        rows = targets.any(1).nonzero().squeeze(1)
        if not len(rows):
            return self.blank.sum() * 0
        taken, put = zip(*(_changed(targets[row], self.most) for row in rows.tolist()), strict=True)
        tokens, hidden = _readable(encoded)
        vectors, notes = torch.cat([self.blank.unsqueeze(0), self.labels()]), (tokens[rows], hidden[rows])
        without = self._lists([one.labels for one in taken], vectors, *notes)
        place = torch.tensor([one.place for one in taken], device=targets.device)
        found = without[torch.arange(len(rows), device=targets.device), place] @ self.labels().T + self.bias
        removed = F.cross_entropy(found, torch.tensor([one.label for one in taken], device=targets.device))
        judged = self.wrong(self._lists([one.labels for one in put], vectors, *notes)).squeeze(2)
        real = pad_sequence([torch.ones(len(one.labels), dtype=torch.bool) for one in put], batch_first=True)
        false = pad_sequence([torch.arange(len(one.labels)) == one.place for one in put], batch_first=True)
        inserted = F.binary_cross_entropy_with_logits(judged[real], false[real].to(judged))
        return (removed + inserted) / 2

    def _lists(
        self, lists: list[Tensor], vectors: Tensor, tokens: Tensor, hidden: Tensor
    ) -> Float[Tensor, "row place size"]:
        """What the layers make of lists of labels beside their notes; number 0 is the blank."""
        numbers = pad_sequence([one + 1 for one in lists], batch_first=True, padding_value=-1).to(tokens.device)
        states = vectors[numbers.clamp(min=0)]
        for layer in self.layers:
            states = layer(
                states, tokens, tgt_key_padding_mask=numbers < 0, memory_key_padding_mask=hidden
            )  # what stands behind a list is not looked at
        return states


class _Changed(NamedTuple):
    """A list of labels in which one was replaced or added: the list (-1 is a blank), where, and which."""

    labels: Int[Tensor, "place"]
    place: int
    label: int


def _changed(targets: Float[Tensor, "label"], most: int) -> tuple[_Changed, _Changed]:
    """A true list with one label taken out, and with a false one put in where there is one."""
    true, false = targets.nonzero().squeeze(1).cpu()[:most], (targets == 0).nonzero().squeeze(1).cpu()
    place = int(torch.randint(len(true), ()))
    blank = true.clone()
    blank[place] = -1
    taken = _Changed(blank, place, int(true[place]))
    if not len(false):
        return taken, _Changed(true, -1, -1)
    wrong = false[torch.randint(len(false), (1,))]
    where = int(torch.randint(len(true) + 1, ()))
    return taken, _Changed(torch.cat([true[:where], wrong, true[where:]]), where, int(wrong))


class _Titles:
    """The titles of all labels, for an encoder that reads those of some labels as one text."""

    def __init__(self, encoder: nn.Module, titles: Batch) -> None:
        assert isinstance(encoder, Encoder)
        self.encoder, self.titles = encoder, titles

    def of(self, targets: Float[Tensor, "batch label"]) -> Encoded:
        """What the encoder makes of the titles of each document's labels, one after the other."""
        rows = [row.nonzero().squeeze(1).cpu() for row in targets]
        tokens = [self.titles.tokens[labels][self.titles.mask[labels]] for labels in rows]
        width = max(1, max(len(own) for own in tokens))
        padded = torch.stack([F.pad(own, (0, width - len(own))) for own in tokens])
        mask = torch.arange(width) < torch.tensor([len(own) for own in tokens]).unsqueeze(1)
        batch = Batch(padded, mask, subwords=self._subwords(rows))
        return self.encoder(batch.to(targets.device))

    def _subwords(self, rows: list[Int[Tensor, "some"]]) -> Subwords | None:
        cut = self.titles.subwords
        if cut is None:
            return None
        lengths = self.titles.mask.sum(1)
        numbers, words = [], []
        for labels in rows:
            before = lengths[labels].cumsum(0) - lengths[labels]
            real = cut.words[labels] >= 0
            numbers.append(cut.numbers[labels][real])
            words.append((cut.words[labels] + before.unsqueeze(1))[real])
        return Subwords(pad_sequence(numbers, True), pad_sequence(words, True, padding_value=-1))


def mean_of_both(heads: Float[Tensor, "batch two label"]) -> Float[Tensor, "batch label"]:
    """The logit of the mean probability of both heads."""
    return F.logsigmoid(heads).logsumexp(1) - F.logsigmoid(-heads).logsumexp(1)


def _scaled(products: Tensor, size: int) -> Tensor:
    return products * size**-0.5


def _readable(encoded: Encoded) -> tuple[Float[Tensor, "batch time size"], Bool[Tensor, "batch time"]]:
    """The states, and where attention must not look; a document without tokens looks at its zeros."""
    hidden = ~(encoded.mask | ~encoded.mask.any(1, keepdim=True))
    return without_padding(encoded.states, encoded.mask), hidden


def _matched_cosines(
    student: Float[Tensor, "batch slot size"], teacher: Float[Tensor, "batch slot size"]
) -> Float[Tensor, "batch slot"]:
    """The cosines of slots that belong together: the pairs with the largest sum (the Hungarian method)."""
    cosines = F.normalize(student, dim=2) @ F.normalize(teacher, dim=2).transpose(1, 2)
    pairs = [linear_sum_assignment(one, maximize=True) for one in np.asarray(cosines.detach().cpu())]
    return torch.stack([own[pair] for own, pair in zip(cosines, pairs, strict=True)])
