"""PLANT's decoder: label attention that starts with what mutual information and a trained ranker know of the words.

    A = softmax(H U)        learned
    S = g(token, label)     static: mutual information, not trained
    P = softmax(keep_k(f))  planted: the ranker's scores, trained on
    logit_l = sum_j (A + S + P)_jl (h_j . w_l) + b_l

Planting is building: the decoder is given a trained ranker and copies it. See docs/models/planted-decoder.md.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plant.errors import RecipeError
from plant.nn.attention import Packed, as_distribution, pack, unpack
from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.forms import compiled_for
from plant.nn.parts.protocols import ArrayForm, Looked, StaticRelevance
from plant.nn.planting.attending import Attending
from plant.nn.planting.batched import BatchLook, PlantedScores, StaticLists, batched_logits, batched_loss
from plant.nn.planting.focus import Focusing, focused_attention
from plant.nn.planting.fused import Segments, fused_logits, fused_loss
from plant.nn.planting.inattention import LabelsByToken, distinct
from plant.nn.planting.listed import Listing, Seen
from plant.nn.planting.pieces import in_pieces
from plant.nn.planting.ranker import RANKERS, Ranker
from plant.nn.planting.sources import Inattention, Planting, Ranked, Static, spread_out
from plant.registry import named_by
from plant.tensors import Decoded, Encoded
from plant.values import Count, Dropout, Natural, small


class PlantedDecoder(nn.Module):
    """Learned, static and planted attention; without `static` and `planted` it is `LabelAttention`.

    Without `learned`, labels look at the positions that survive and nowhere else: inattention then holds for the static
    source too, as shares of the relevance that survives, and a step costs a fraction (`plant.nn.planting.focus`).
    With `listed` they look only at words among the first `listed` of their relevance list, and cost goes by those that
    stand in the document (`plant.nn.planting.listed`).
    `static_values`: mutual information as it is, or divided by its sum over the document. Of the ranker's scores the
    `k` best positions survive `inattention`. `scales`: one weight per source, all 1 at the start. Further options are
    those of `LabelAttention`.
    """

    starts_from = frozenset({"ranker"})
    tiny = small(k=3)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        relevance: StaticRelevance | None = None,
        ranker: Ranker | None = None,
        frequencies: Float[Tensor, "label"] | None = None,
        learned: bool = True,
        static: bool = True,
        planted: bool = True,
        static_values: Literal["raw", "normalised"] = "normalised",
        inattention: Inattention = "mask",
        k: Count = 56,
        scales: Literal["learned", "fixed"] = "learned",
        key_size: Natural = 0,
        dropout: Dropout = 0.0,
        start_at_prior: bool = True,
        segment: Natural = 0,
        listed: Natural = 0,
    ) -> None:
        super().__init__()
        self.learned = LabelAttention(
            input_size, n_labels, frequencies=frequencies, key_size=key_size,
            dropout=dropout, start_at_prior=start_at_prior, segment=segment,
        )  # fmt: skip
        if not learned:
            self.learned.register_parameter("queries", None)
        self.segment, self.static_values = segment, static_values
        self.inattention, self.k, self.listed = inattention, k, listed
        self.names = (*["learned"] * learned, *["static"] * static, *["planted"] * planted)
        if not self.names:
            raise RecipeError("the planted decoder needs a source of attention: learned, static or planted")
        if not learned and inattention == "zero":
            raise RecipeError('inattention = "zero" looks at every position: without learned attention take "mask"')
        if listed and learned:
            raise RecipeError("listed words are for planted attention alone: set learned = false, or listed = 0")
        self.scales = nn.Parameter(torch.ones(len(self.names)), requires_grad=scales == "learned")
        if planted and ranker is None:
            raise _missing("a ranker", option="planted")
        if (static or listed) and relevance is None:
            raise _missing("relevance", option="static" if static else "listed")
        self.ranker: Ranker | None = deepcopy(ranker) if planted else None
        self.listing: Listing | None = None
        if listed and relevance is not None:
            sources = {"static": static, "normalised": static_values == "normalised"}
            self.listing = Listing(relevance.first(listed), n_labels=n_labels, k=k, **sources)
        elif static and relevance is not None:
            self._keep_lists(relevance)

    @staticmethod
    def needs(options: Mapping[str, Any]) -> frozenset[str]:
        """Relevance for the static source and for listed words, a ranker for the planted source, where they are on."""
        relevance = options.get("static", True) or options.get("listed", 0)
        idle = {"relevance": not relevance, "ranker": not options.get("planted", True)}
        return named_by(PlantedDecoder) - {name for name in idle if idle[name]}

    @property
    def evident(self) -> bool:
        """What is planted was measured to be evidence; attention that was only learned is none (docs/results.md)."""
        return len(self.names) > 1

    def array_form(self) -> ArrayForm | None:
        """What `plant.nn.reading.planted` must know beside the weights; listed words and both sources have a form."""
        if self.listing is None or self.ranker is None or self.segment or not self.evident:
            return None
        forms = {kind: form for form, kind in RANKERS.builders.items()}
        looks = {"listed": self.listed, "k": self.k, "normalised": self.listing.normalised}
        return ArrayForm({"form": "listed", "ranker": forms[type(self.ranker)], **looks})

    def planted_ranker(self) -> Ranker | None:
        """The copy of the ranker that goes on learning."""
        return self.ranker

    def forward(self, encoded: Encoded) -> Decoded:
        return Decoded(self.evidence(encoded) + self.prior)

    def evidence(self, encoded: Encoded) -> Float[Tensor, "batch label"]:
        """The logits without the bias."""
        if self.listing is not None:
            return self.listing.evidence(self._seen(encoded))
        if not compiled_for(self.prior.device):
            return batched_logits(*self._batch_look(encoded), torch.zeros_like(self.prior))
        segments, packed, tensors = self._prepared(encoded)
        return fused_logits(segments, packed.lengths, torch.zeros_like(self.prior), tensors)

    def looks_at(
        self, tokens: Int[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]
    ) -> Bool[Tensor, "batch time"] | None:
        """Where listed words stand; all positions count where segments do, or where any word may be looked at."""
        return None if self.listing is None or self.segment else mask & self.listing.is_listed(tokens)

    def read_like(self, whole: "PlantedDecoder") -> None:
        """Have the encoder read what a decoder of more labels looks at: dropout then draws the same for both."""
        if self.listing is not None and whole.listing is not None:
            self.listing.listed_tokens.copy_(whole.listing.listed_tokens)

    @property
    def prior(self) -> Float[Tensor, "label"]:
        """The bias: what a document without evidence gets."""
        return self.learned.bias

    def loss(self, encoded: Encoded, targets: Float[Tensor, "batch label"]) -> Float[Tensor, ""]:
        """The mean binary cross-entropy, faster than through the logits."""
        if self.listing is not None:
            return self.listing.loss(self._seen(encoded), self.prior, targets)
        if not compiled_for(self.prior.device):
            return batched_loss(*self._batch_look(encoded), self.prior, targets=targets)
        segments, packed, tensors = self._prepared(encoded)
        return fused_loss(segments, packed.lengths, self.prior, tensors, targets=targets)

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """The sum of all sources, as a distribution over each document."""
        return as_distribution(torch.stack(list(self.attend_by_source(encoded, labels).values())).sum(0))

    def look(self, encoded: Encoded) -> tuple[Decoded, Looked]:
        """The logits, and what `attend` would say of each document."""
        found = None if self.listing is None else self.listing.look(self._seen(encoded))
        if found is None:
            return self(encoded), lambda row, labels: self.attend(encoded.document(row), labels)[0]
        evidence, look = found

        def looked(row: int, labels: Int[Tensor, "asked"]) -> Float[Tensor, "asked time"]:
            return as_distribution(torch.from_numpy(look.of(row, labels.cpu().numpy())))

        return Decoded(evidence + self.prior), looked

    @torch.no_grad()
    def attend_by_source(
        self, encoded: Encoded, labels: Int[Tensor, "asked"]
    ) -> dict[str, Float[Tensor, "batch asked time"]]:
        """The weights that each source gives, its scale included: `learned`, `static`, `planted`."""
        packed = pack(encoded, segment=self.segment)
        if self.listing is not None:
            seen = Seen(packed, self.learned.weights, self.scales, self.ranker)
            every = zip(self.names, self.scales, self.listing.attention(seen, labels), strict=True)
            return {name: unpack(scale * row, encoded.mask) for name, scale, row in every}
        planting = self._planting(packed)
        tensors = self._trained(planting)
        if "learned" not in self.names:
            rows = focused_attention(planting, tensors, labels, k=self.k)
            every = zip(self.names, self.scales, rows, strict=True)
            return {name: unpack(scale * row, encoded.mask) for name, scale, row in every}
        learned = self.learned.attention(packed, labels)
        rows = [learned, *(torch.zeros_like(learned) for _ in self.names[1:])]
        for number, parts in enumerate(zip(*(row.split(packed.segments, dim=1) for row in rows), strict=True)):
            for source, part in zip(planting.of(number, tensors, [None] * len(tensors)), parts[1:], strict=True):
                spread_out(source, labels, part)
        every = zip(self.names, self.scales, rows, strict=True)
        return {name: unpack(scale * row, encoded.mask) for name, scale, row in every}

    def _seen(self, encoded: Encoded) -> Seen:
        packed = pack(encoded, segment=self.segment)
        states = self.learned.dropout(packed.states).to(self.learned.weights.dtype)  # mixed precision ends here
        return Seen(replace(packed, states=states), self.learned.weights, self.scales, self.ranker)

    def _prepared(self, encoded: Encoded) -> tuple[Segments, Packed, tuple[Tensor, ...]]:
        packed = pack(encoded, segment=self.segment)
        planting = self._planting(packed)
        trained = self._trained(planting)
        if "learned" in self.names:
            return Attending(planting), packed, (*self.learned.heads(packed, self.scales), *trained)
        states = self.learned.dropout(packed.states).to(self.learned.weights.dtype)  # mixed precision ends here
        return Focusing(planting, self.k), packed, (states, self.learned.weights, self.scales, *trained)

    def _batch_look(self, encoded: Encoded) -> tuple[Packed, BatchLook]:
        """The batch and what looks at it, for devices without kernels of ours."""
        packed = pack(encoded, segment=self.segment)
        static, planted = self._static(), self._ranked()
        sources = {
            "static": static and StaticLists(static.lists, self.list_bounds, static.normalised),
            "planted": planted and PlantedScores(planted.pieces, planted.inattention),
            "k": self.k,
        }
        return packed, self.learned.batch_look(packed, self.scales, **sources)

    def _planting(self, packed: Packed) -> Planting:
        segments = tuple(distinct(tokens) for tokens in packed.tokens.split(packed.segments))
        return Planting(segments, static=self._static(), ranked=self._ranked())

    def _static(self) -> Static | None:
        if "static" not in self.names:
            return None
        lists = LabelsByToken(self.list_starts, self.list_labels, self.list_scores)
        return Static(lists, normalised=self.static_values == "normalised")

    def _ranked(self) -> Ranked | None:
        return None if self.ranker is None else Ranked(in_pieces(self.ranker), self.k, self.inattention)

    def _trained(self, planting: Planting) -> tuple[Tensor, ...]:
        """The ranker's tensors, which the planted source reads and teaches."""
        if planting.ranked is None:
            return ()
        with torch.autocast(planting.tokens.device.type, enabled=False):  # mixed precision ends here
            return planting.ranked.pieces.tensors(planting.tokens)

    def _keep_lists(self, relevance: StaticRelevance) -> None:
        """Buffers that a saved model leaves out: they come from the relevance, which is saved once and whole."""
        lists = relevance.by_token()
        self.list_bounds = lists.starts  # read on the host whatever the device
        self.list_starts: Tensor
        self.list_labels: Tensor
        self.list_scores: Tensor
        for name, values in (("starts", lists.starts), ("labels", lists.labels), ("scores", lists.scores)):
            self.register_buffer(f"list_{name}", torch.from_numpy(values), persistent=False)


def _missing(what: str, *, option: str) -> RecipeError:
    off = "0" if option == "listed" else "false"
    return RecipeError(f"the planted decoder needs {what}; give it, or set {option} = {off}")
