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
from plant.nn.planting import Static
from plant.nn.ranker import Ranker

LABELS = 4096  # at once: what bounds the memory of a step


def focused_evidence(
    states: Float[Tensor, "position size"],
    weights: Float[Tensor, "label size"],
    scales: Float[Tensor, "source"],
    document: Distinct,
    *,
    static: Static | None,
    ranker: Ranker | None,
    k: int,
) -> Float[Tensor, "label"]:
    """What one document says for every label: the states under the weights of each source, scaled and added up."""
    if not len(states):
        return weights.new_zeros(len(weights))
    parts = []
    for start in range(0, len(weights), LABELS):
        labels = range(start, min(start + LABELS, len(weights)))
        places, shares = zip(*sources(document, labels, static=static, ranker=ranker, k=k), strict=True)
        scaled = torch.cat([scale * share for scale, share in zip(scales, shares, strict=True)], dim=1)
        seen = F.embedding_bag(torch.cat(places, dim=1), states, per_sample_weights=scaled.to(states.dtype), mode="sum")
        parts.append(torch.linalg.vecdot(seen, weights[labels.start : labels.stop]))
    return torch.cat(parts)


def sources(
    document: Distinct, labels: range, *, static: Static | None, ranker: Ranker | None, k: int
) -> Iterator[tuple[Int[Tensor, "label kept"], Float[Tensor, "label kept"]]]:
    """Positions and weights of each source, static then planted: shares of relevance, and a softmax of scores."""
    if static is not None:
        rows = relevance_rows(static.lists, document, labels)
        kept = survivors(rows, document, k)
        found = rows.gather(1, kept.places)
        total = found.sum(-1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
        yield kept.positions, found / total if static.normalised else found
    if ranker is not None:
        asked = torch.arange(labels.start, labels.stop, device=document.tokens.device)
        scores = ranker.scores(document.tokens, asked)
        kept = survivors(scores.detach(), document, k)
        yield kept.positions, scores.gather(1, kept.places).softmax(-1)


def focused_attention(
    documents: Sequence[Distinct],
    labels: Int[Tensor, "asked"],
    *,
    static: Static | None,
    ranker: Ranker | None,
    k: int,
) -> list[Float[Tensor, "asked position"]]:
    """The weights of each source over all positions of documents that stand one after the other."""
    found: list[list[Tensor]] = [[] for source in (static, ranker) if source is not None]
    for document in documents:
        rows: list[list[Tensor]] = [[] for _ in found]
        for label in labels.tolist():
            one = sources(document, range(label, label + 1), static=static, ranker=ranker, k=k)
            for row, (places, shares) in zip(rows, one, strict=True):
                row.append(shares.new_zeros(len(document.place)).index_add(0, places[0], shares[0]))
        for whole, row in zip(found, rows, strict=True):
            whole.append(torch.stack(row))
    return [torch.cat(rows, dim=1) for rows in found]
