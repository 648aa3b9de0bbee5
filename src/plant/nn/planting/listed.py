"""Sparse planting: a label looks only at words of its relevance list, so a note costs by the listed pairs in it.

    z_l = b_l + sum over listed words t of the note of  (s S_lt + p P_lt) (H_t . w_l)

S are shares of relevance and P a softmax of the ranker's scores, both over the k best listed positions; H_t sums the
states of those of them that hold t. A label without a listed word in the note has its bias. Compiled for the CPU
(`plant.nn.planting.listed_step`), plain torch elsewhere (`plant.nn.planting.listed_torch`).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plant.nn.attention import Packed
from plant.nn.forms import compiled_for, full_precision, sent
from plant.nn.parts.protocols import StaticRelevance
from plant.nn.planting import listed_step
from plant.nn.planting.listed_look import Constants, ListedStep, Look, Rooms
from plant.nn.planting.listed_notes import ListedNotes, read_notes
from plant.nn.planting.listed_torch import Listed
from plant.nn.planting.pieces import in_pieces
from plant.nn.planting.ranker import Ranker, TwoLayerRanker


class Seen(NamedTuple):
    """A batch and what looks at it."""

    packed: Packed
    weights: Float[Tensor, "label size"]
    scales: Float[Tensor, "source"]
    ranker: Ranker | None


class Listing(nn.Module):
    """Relevance lists by token, and the evidence, loss and attention of labels that look at listed words only.

    The lists come from the relevance, which is saved once and whole, so they are not part of the weights.
    """

    def __init__(self, relevance: StaticRelevance, *, n_labels: int, k: int, static: bool, normalised: bool) -> None:
        super().__init__()
        lists = relevance.by_token()
        assert not len(lists.labels) or lists.labels.max() < n_labels  # kernels do not look
        self.starts, self.labels = lists.starts, lists.labels  # read on the host whatever the device
        self.values: Tensor
        self.register_buffer("values", torch.from_numpy(lists.scores), persistent=False)
        self.listed_tokens: Tensor
        self.register_buffer("listed_tokens", torch.from_numpy(np.diff(lists.starts) > 0), persistent=False)
        self.n_labels, self.k, self.static, self.normalised = n_labels, k, static, normalised
        self.forget()
        self.register_load_state_dict_post_hook(lambda module, _: module.forget())  # type: ignore[no-untyped-call]

    def forget(self) -> None:
        """Let go of what is kept between steps of training, and between predictions."""
        self._rooms = Rooms()
        self._constants: Constants | None = None

    def train(self, mode: bool = True) -> "Listing":
        """Turn to training or to prediction, each of which keeps what the other has no use for."""
        if mode != self.training:
            self.forget()
        return super().train(mode)

    def is_listed(self, tokens: Int[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
        """Whether some label lists each token; words that were added later are on no list."""
        last = len(self.listed_tokens) - 1
        return self.listed_tokens[tokens.clamp(max=last)] & (tokens <= last)

    def evidence(self, seen: Seen) -> Float[Tensor, "batch label"]:
        """The logits without the bias."""
        if compiled(seen):
            return listed_step.evidence_of(*self._step(seen))
        listed, tensors = self._plain(seen)
        with full_precision(seen.weights.device):
            return listed.evidence([len(document) for document in seen.packed.lengths], tensors)

    def look(self, seen: Seen) -> tuple[Float[Tensor, "batch label"], Look] | None:
        """The logits without the bias, and where labels looked; None where the compiled form cannot do it."""
        if not compiled(seen) or torch.is_grad_enabled():
            return None
        starts = (0, *accumulate(sum(document) for document in seen.packed.lengths))
        return listed_step.looked_of(*self._step(seen), starts)

    def loss(
        self, seen: Seen, bias: Float[Tensor, "label"], targets: Float[Tensor, "batch label"]
    ) -> Float[Tensor, ""]:
        """The mean binary cross-entropy."""
        if torch.is_grad_enabled() and compiled(seen):
            return listed_step.loss_of(*self._step(seen), bias, targets)
        return F.binary_cross_entropy_with_logits(self.evidence(seen) + bias, targets)

    @torch.no_grad()
    def attention(self, seen: Seen, labels: Int[Tensor, "asked"]) -> list[Float[Tensor, "asked position"]]:
        """The weights of each source for all asked labels at once; states do not matter."""
        states = seen.packed.states.to(seen.weights.dtype)  # of mixed precision
        seen = seen._replace(packed=replace(seen.packed, states=states))
        asked, places = labels.unique(return_inverse=True)
        if compiled(seen):
            found = listed_step.attention_of(*self._step(seen, asked), asked, len(seen.packed.tokens))
        else:
            listed, tensors = self._plain(seen, asked)
            found = listed.attention(tensors, asked)
        return [rows[places] for rows in found]

    def _step(self, seen: Seen, asked: Int[Tensor, "asked"] | None = None) -> tuple[ListedStep, tuple[Tensor, ...]]:
        """The compiled form."""
        notes = self._notes(seen.packed.host_tokens, seen.packed.lengths, asked)
        fitted = None if self.training or torch.is_grad_enabled() else self._fitted(seen.ranker)
        with without_mixed_precision():
            half = None if fitted is None else fitted.label_half
            ranker = listed_step.ranker_tensors(seen.ranker, notes, half)
        rooms = self._rooms if self.training else Rooms()  # a coder may predict in several threads
        looks = (self.values.numpy(), self.k, self.static, self.normalised, listed_step.ranker_form(seen.ranker))
        return ListedStep(notes, *looks, fitted, rooms), (seen.packed.states, seen.weights, seen.scales, *ranker)

    def _plain(self, seen: Seen, asked: Int[Tensor, "asked"] | None = None) -> tuple[Listed, tuple[Tensor, ...]]:
        """The form of any device; each segment is read like a document."""
        notes = self._notes(seen.packed.host_tokens, [(length,) for length in seen.packed.segments], asked)
        ranker: tuple[Tensor, ...] = ()
        if seen.ranker is not None:
            with full_precision(seen.weights.device):
                ranker = in_pieces(seen.ranker).tensors(sent(torch.from_numpy(notes.tokens), seen.weights.device))
        listed = Listed(notes, self.values, self.k, self.static, self.normalised, planted=seen.ranker is not None)
        return listed, (seen.packed.states, seen.weights, seen.scales, *ranker)

    def _notes(
        self, tokens: Int[Tensor, "position"], lengths: Sequence[Sequence[int]], labels: Int[Tensor, "asked"] | None
    ) -> ListedNotes:
        asked = np.full(self.n_labels, labels is None, np.uint8)
        if labels is not None:
            asked[labels.cpu().numpy()] = 1
        return read_notes(tokens.numpy(), lengths, self.starts, self.labels, asked, k=self.k)

    def _fitted(self, ranker: Ranker | None) -> Constants | None:
        """What the ranker said so far, as long as nothing changes it."""
        if ranker is None:
            return None
        versions = tuple((tensor.data_ptr(), _version(tensor)) for tensor in ranker.parameters())
        if self._constants is None or self._constants.versions != versions:
            scores = np.full(len(self.values), np.nan, self.values.numpy().dtype)
            half = listed_step.label_half_of(ranker).numpy() if isinstance(ranker, TwoLayerRanker) else None
            self._constants = Constants(scores, half, versions)
        return self._constants


def without_mixed_precision() -> AbstractContextManager[object]:
    """Mixed precision ends here; where there is none, torch's own way of saying so takes longer than a small note."""
    return torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext()


def compiled(seen: Seen) -> bool:
    """Whether kernels can do it."""
    return compiled_for(seen.weights.device) and seen.weights.dtype in (torch.float32, torch.float64)


def _version(tensor: Tensor) -> int:
    """How often a tensor was changed in place."""
    return 0 if tensor.is_inference() else tensor._version
