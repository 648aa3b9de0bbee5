"""Planted attention: what mutual information and a trained ranker say about each token, as sources of attention.

Both depend on the token alone, so they are computed on a document's distinct tokens, for some labels at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plant.nn.planting.attending import Source, Spread
from plant.nn.planting.inattention import Asked, Distinct, LabelsByToken, relevance_rows, rows_of, survivors
from plant.nn.planting.pieces import Pieces

Inattention = Literal["mask", "zero"]


@dataclass(frozen=True)
class Static:
    """Relevance as attention: as it is, or divided by its sum over the segment."""

    lists: LabelsByToken
    normalised: bool

    def source(self, document: Distinct) -> Source:
        """The static attention of a segment."""

        def pool(values: Tensor, labels: Asked) -> tuple[Tensor, Spread]:
            rows = relevance_rows(self.lists, document, labels).to(values.dtype).index_select(1, document.place)
            share = 1 / rows.sum(-1).clamp(min=torch.finfo(rows.dtype).tiny) if self.normalised else rows.new_ones(())

            def spread(slope: Tensor, combined: Tensor) -> None:
                combined.addcmul_(rows, (slope * share).unsqueeze(1))

            return torch.linalg.vecdot(rows, values) * share, spread

        return pool


@dataclass(frozen=True)
class Ranked:
    """A ranker's scores as attention: softmax over the `k` best positions of a segment.

    `inattention`: the others get no weight (`mask`), or the weight of a score of zero (`zero`, as printed).
    """

    pieces: Pieces
    k: int
    inattention: Inattention

    def source(
        self, document: Distinct, tokens: slice, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]
    ) -> Source:
        """The planted attention of a segment whose distinct tokens are `tokens` of those the tensors are for."""

        def pool(values: Tensor, labels: Asked) -> tuple[Tensor, Spread]:
            rows = rows_of(labels)
            scores = self.pieces.scores(tensors, tokens, rows)
            kept = survivors(scores, document, self.k)
            weights, rest = self._weights(scores.gather(1, kept.places), values.shape[1])
            kept_values = values.gather(1, kept.positions)
            total = torch.linalg.vecdot(weights, kept_values)
            if rest is not None:  # one weight for all others: the sum of all values, less that of the survivors
                total = total + rest * (values.sum(-1) - kept_values.sum(-1))

            def spread(slope: Tensor, combined: Tensor) -> None:
                added = slope.unsqueeze(1) * weights
                if rest is not None:
                    others = (slope * rest).unsqueeze(1)
                    combined.add_(others)
                    combined.scatter_add_(1, kept.positions, added - others)
                else:
                    combined.scatter_add_(1, kept.positions, added)
                if isinstance(rows, Tensor):  # of labels that were asked for: nothing is learned
                    return
                by_score = added * (kept_values - total.unsqueeze(1))
                self.pieces.add_gradients(tensors, gradients, tokens, rows, kept.places, by_score)

            return total, spread

        return pool

    def _weights(self, kept: Float[Tensor, "label kept"], length: int) -> tuple[Tensor, Tensor | None]:
        """The softmax weights of the survivors, and that of every other position if there is any."""
        if self.inattention == "mask" or kept.shape[1] == length:
            return kept.softmax(-1), None
        highest = kept.amax(-1, keepdim=True).clamp(min=0)
        raised, other = (kept - highest).exp(), (-highest).exp()
        total = raised.sum(-1, keepdim=True) + other * (length - kept.shape[1])
        return raised / total, (other / total).squeeze(1)


@dataclass(frozen=True)
class Planting:
    """The planted sources of a batch's segments; their distinct tokens stand one after the other in `tokens`."""

    segments: tuple[Distinct, ...]
    static: Static | None
    ranked: Ranked | None

    @cached_property
    def tokens(self) -> Int[Tensor, "token"]:
        """The distinct tokens of all segments."""
        return torch.cat([segment.tokens for segment in self.segments])

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the tokens of each segment begin."""
        return (0, *accumulate(len(segment.tokens) for segment in self.segments))

    def span(self, segment: int) -> slice:
        """Where the tokens of a segment stand among `tokens`."""
        return slice(self.starts[segment], self.starts[segment + 1])

    def of(self, segment: int, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> list[Source]:
        """The static source, then the planted one; either may be missing."""
        document, sources = self.segments[segment], []
        if self.static is not None:
            sources.append(self.static.source(document))
        if self.ranked is not None:
            sources.append(self.ranked.source(document, self.span(segment), tensors, gradients))
        return sources


def spread_out(source: Source, labels: Int[Tensor, "asked"], empty: Float[Tensor, "asked position"]) -> None:
    """Write into `empty` the weights that a source gives to the positions of its segment."""
    _, spread = source(empty, labels)
    spread(empty.new_ones(len(labels)), empty)
