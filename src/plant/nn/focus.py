"""Planted attention alone, on the few positions that survive: nothing is computed for all others.

Without learned attention a label looks at `k` positions at most, so its logit needs the states of these alone: a
gathered sum of k rows instead of products with every position of the document.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from plant.nn.inattention import Distinct, relevance_rows, survivors
from plant.nn.planting import Planting, Static

LABELS = 4096  # at once: what bounds the memory of a step


def focused_evidence(
    states: Sequence[Float[Tensor, "position size"]],
    weights: Float[Tensor, "label size"],
    scales: Float[Tensor, "source"],
    planting: Planting,
    tensors: Sequence[Tensor],
    *,
    k: int,
) -> list[Float[Tensor, "label"]]:
    """What each segment says for every label; the ranker reads and teaches `tensors`, made for the whole batch."""
    return [
        _of_segment(part, weights, scales, planting, number, tensors, k)
        if len(part)
        else weights.new_zeros(len(weights))
        for number, part in enumerate(states)
    ]


def _of_segment(
    states: Float[Tensor, "position size"],
    weights: Float[Tensor, "label size"],
    scales: Float[Tensor, "source"],
    planting: Planting,
    number: int,
    tensors: Sequence[Tensor],
    k: int,
) -> Float[Tensor, "label"]:
    """The states under the weights of each source, scaled and added up, some labels at a time."""
    parts = []
    for start in range(0, len(weights), LABELS):
        labels = range(start, min(start + LABELS, len(weights)))
        places, shares = zip(*focused_sources(planting, number, tensors, labels, k=k), strict=True)
        scaled = torch.cat([scale * share for scale, share in zip(scales, shares, strict=True)], dim=1)
        seen = F.embedding_bag(torch.cat(places, dim=1), states, per_sample_weights=scaled.to(states.dtype), mode="sum")
        parts.append(torch.linalg.vecdot(seen, weights[labels.start : labels.stop]))
    return torch.cat(parts)


def focused_sources(
    planting: Planting, number: int, tensors: Sequence[Tensor], labels: range, *, k: int
) -> Iterator[tuple[Int[Tensor, "label kept"], Float[Tensor, "label kept"]]]:
    """Positions and weights of each source in a segment, static then planted: shares, and a softmax of scores."""
    document = planting.segments[number]
    if planting.static is not None:
        yield _shares(planting.static, document, labels, k)
    if planting.ranked is not None:
        tokens = slice(planting.starts[number], planting.starts[number + 1])
        scores = planting.ranked.pieces.scores(tensors, tokens, slice(labels.start, labels.stop))
        kept = survivors(scores.detach(), document, k)
        yield kept.positions, scores.gather(1, kept.places).softmax(-1)


def _shares(static: Static, document: Distinct, labels: range, k: int) -> tuple[Tensor, Tensor]:
    rows = relevance_rows(static.lists, document, labels)
    kept = survivors(rows, document, k)
    found = rows.gather(1, kept.places)
    total = found.sum(-1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
    return kept.positions, found / total if static.normalised else found


def focused_attention(
    planting: Planting, tensors: Sequence[Tensor], labels: Int[Tensor, "asked"], *, k: int
) -> list[Float[Tensor, "asked position"]]:
    """The weights of each source over all positions of the segments, one after the other."""
    columns = []
    for number, document in enumerate(planting.segments):
        rows = [
            [
                shares.new_zeros(len(document.place)).index_add(0, places[0], shares[0])
                for places, shares in focused_sources(planting, number, tensors, range(label, label + 1), k=k)
            ]
            for label in labels.tolist()
        ]
        columns.append([torch.stack(source) for source in zip(*rows, strict=True)])
    return [torch.cat(source, dim=1) for source in zip(*columns, strict=True)]
