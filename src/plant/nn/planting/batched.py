"""Label attention of a whole batch in plain torch, for devices that are slow to start work and slow to wait for.

The same equations as `plant.nn.planting.attending` (learned attention and sources) and `plant.nn.planting.focus`
(planted attention alone), but all segments of a batch at once, some labels at a time:

    scores [label, token] of the batch's distinct tokens; the floor is the k-th best position of a segment, found by a
    topk over its distinct words; above it all positions are kept, on it the first ones that have room
    planted attention alone: one embedding_bag over the kept positions of all segments and labels

Where words stand is found out on the host (`Layout`), from the host's copy of the tokens, so nothing in here waits for
the device: no value of a tensor decides what is computed next. Chunks of labels, where there are several, are computed
again in the backward pass.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from plant.nn.attention import Packed, masked_softmax
from plant.nn.forms import full_precision, sent
from plant.nn.planting.inattention import LabelsByToken, relevance_of
from plant.nn.planting.pieces import Pieces
from plant.nn.planting.sources import Inattention

ENTRIES_ON_CPU = 4_000_000  # of an array [label, segment, position]
ENTRIES_ON_GPU = 50_000_000


class Layout(NamedTuple):
    """Where the words of a batch stand; segments are rows, and every document has as many, empty ones at its end."""

    tokens: Int[Tensor, "token"]  # the distinct ones of the batch
    words: Int[Tensor, "row word"]  # those of a segment, as places among `tokens`
    counts: Int[Tensor, "row word"]  # how often; 0 at padding
    places: Int[Tensor, "row time"]  # the token of each position, as a place among `tokens`
    positions: Int[Tensor, "row time"]  # where it stands in the packed batch; 0 at padding
    real: Bool[Tensor, "row time"]


@dataclass(frozen=True)
class StaticLists:
    """Relevance lists by token on the device, and where they begin on the host, which knows how much is read."""

    lists: LabelsByToken
    starts: NDArray[np.int64]
    normalised: bool


@dataclass(frozen=True)
class PlantedScores:
    """A ranker in pieces, and which weight positions get that do not survive."""

    pieces: Pieces
    inattention: Inattention


@dataclass(frozen=True)
class BatchLook:
    """What labels look with; without keys and queries there is no learned attention, and `k` positions are all."""

    states: Float[Tensor, "position size"]
    weights: Float[Tensor, "label size"]
    scales: Float[Tensor, "source"]
    keys: Float[Tensor, "position key"] | None = None
    queries: Float[Tensor, "label key"] | None = None
    static: StaticLists | None = None
    planted: PlantedScores | None = None
    k: int = 1


def batched_logits(packed: Packed, look: BatchLook, bias: Float[Tensor, "label"]) -> Float[Tensor, "document label"]:
    """The logits of each document."""
    with full_precision(bias.device):
        return _evidence(packed, look) + bias


def batched_loss(
    packed: Packed, look: BatchLook, bias: Float[Tensor, "label"], *, targets: Float[Tensor, "document label"]
) -> Float[Tensor, ""]:
    """The mean binary cross-entropy."""
    with full_precision(bias.device):
        return F.binary_cross_entropy_with_logits(_evidence(packed, look) + bias, targets)


def laid_out(tokens: Int[Tensor, "position"], lengths: Sequence[Sequence[int]], device: torch.device) -> Layout:
    """The layout of packed tokens that lie on the host."""
    numbers, at = np.unique(tokens.numpy(), return_inverse=True)
    width = max(len(document) for document in lengths)
    sizes = np.array([[*document, *[0] * (width - len(document))] for document in lengths], np.int64).reshape(-1)
    row = np.repeat(np.arange(len(sizes)), sizes)
    column = np.arange(len(at)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    real = np.arange(max(1, sizes.max(initial=0))) < sizes[:, None]
    places, positions = np.zeros(real.shape, np.int64), np.zeros(real.shape, np.int64)
    places[row, column], positions[row, column] = at, np.arange(len(at))
    words, counts = _words(row * max(1, len(numbers)) + at, len(sizes), max(1, len(numbers)))
    arrays = (numbers.astype(np.int64), words, counts, places, positions, real)
    return Layout(*(sent(torch.from_numpy(array), device) for array in arrays))


def _words(keys: NDArray[np.int64], n_rows: int, n_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct words of each row, padded, and their counts, from row x tokens + token of every position."""
    found, times = np.unique(keys, return_counts=True)
    row, sizes = found // n_tokens, np.bincount(found // n_tokens, minlength=n_rows)
    column = np.arange(len(found)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    words, counts = (np.zeros((n_rows, max(1, sizes.max(initial=0))), np.int64) for _ in range(2))
    words[row, column], counts[row, column] = found % n_tokens, times
    return words, counts


def _evidence(packed: Packed, look: BatchLook) -> Float[Tensor, "document label"]:
    """The logits without the bias."""
    n_documents, n_labels = len(packed.lengths), len(look.weights)
    if not len(packed.host_tokens):
        return look.weights.new_zeros(n_documents, n_labels)
    layout = laid_out(packed.host_tokens, packed.lengths, look.states.device)
    ranker = () if look.planted is None else look.planted.pieces.tensors(layout.tokens)
    entries = 0 if look.static is None else _listed(look.static.starts, packed.host_tokens.numpy())
    of_chunk = partial(_chunk_evidence, layout, look, ranker, entries)
    chunks = list(_chunks(n_labels, layout, look))
    if len(chunks) > 1 and torch.is_grad_enabled():
        of_chunk = partial(checkpoint, of_chunk, use_reentrant=False, preserve_rng_state=False)
    by_row = torch.cat([of_chunk(labels) for labels in chunks])  # [label, row]
    return by_row.unflatten(1, (n_documents, -1)).sum(-1).T


def _listed(starts: NDArray[np.int64], tokens: NDArray[np.int64]) -> int:
    """How many labels list the distinct tokens, each label counted as often as it lists one."""
    distinct = np.unique(tokens)
    return int((starts[distinct + 1] - starts[distinct]).sum())


def _chunks(n_labels: int, layout: Layout, look: BatchLook) -> Iterator[range]:
    entries = ENTRIES_ON_CPU if look.states.device.type == "cpu" else ENTRIES_ON_GPU
    rows, time = layout.places.shape
    size = max(16, entries // (rows * max(time, look.states.shape[1])))
    return (range(start, min(start + size, n_labels)) for start in range(0, n_labels, size))


def _chunk_evidence(
    layout: Layout, look: BatchLook, ranker: Sequence[Tensor], entries: int, labels: range
) -> Float[Tensor, "label row"]:
    static = None
    if look.static is not None:
        static = relevance_of(look.static.lists, layout.tokens, labels, entries).to(look.states.dtype)
    scores = None
    if look.planted is not None:
        with torch.no_grad():  # kept scores carry the gradients
            scores = look.planted.pieces.scores(ranker, slice(0, len(layout.tokens)), _rows(labels))
    if look.queries is None:
        return _focused(layout, look, static, scores, ranker, labels)
    return _attended(layout, look, static, scores, ranker, labels)


def _focused(
    layout: Layout,
    look: BatchLook,
    static: Tensor | None,
    scores: Tensor | None,
    ranker: Sequence[Tensor],
    labels: range,
) -> Float[Tensor, "label row"]:
    """Planted attention alone: the states at kept positions, as their sources weigh them."""
    kept, shares = [], []
    if static is not None and look.static is not None:
        kept.append(_survivors(static, layout, look.k))
        shares.append(_static_shares(static, kept[-1], normalised=look.static.normalised))
    if scores is not None and look.planted is not None:
        kept.append(_survivors(scores, layout, look.k))
        found = _kept_scores(look.planted.pieces, scores, kept[-1], ranker, labels)
        shares.append(masked_softmax(found, kept[-1].held))
    scaled = torch.cat([scale * share for scale, share in zip(look.scales, shares, strict=True)], dim=-1)
    positions = torch.cat([_at(layout.positions, survivors.columns) for survivors in kept], dim=-1)
    pooled = F.embedding_bag(
        positions.flatten(0, 1), look.states, per_sample_weights=scaled.to(look.states.dtype).flatten(0, 1), mode="sum"
    )
    return torch.linalg.vecdot(pooled.unflatten(0, scaled.shape[:2]), look.weights[_rows(labels)].unsqueeze(1))


def _attended(
    layout: Layout,
    look: BatchLook,
    static: Tensor | None,
    scores: Tensor | None,
    ranker: Sequence[Tensor],
    labels: range,
) -> Float[Tensor, "label row"]:
    """Learned attention and the sources beside it, over all positions."""
    assert look.keys is not None  # or nothing is learned
    assert look.queries is not None
    real = layout.real.unsqueeze(0)
    values = torch.where(real, _spread(look.weights[_rows(labels)] @ look.states.T, layout.positions), 0.0)
    attention = masked_softmax(_spread(look.queries[_rows(labels)] @ look.keys.T, layout.positions), real)
    totals = [torch.linalg.vecdot(attention, values)]
    if static is not None and look.static is not None:
        weights = torch.where(real, _spread(static, layout.places), 0.0)
        share = _share(weights) if look.static.normalised else weights.new_ones(())
        totals.append(torch.linalg.vecdot(weights, values) * share)
    if scores is not None and look.planted is not None:
        kept = _survivors(scores, layout, look.k)
        found = _kept_scores(look.planted.pieces, scores, kept, ranker, labels)
        totals.append(_planted_total(found, values, kept, layout, inattention=look.planted.inattention))
    return torch.stack([scale * total for scale, total in zip(look.scales, totals, strict=True)]).sum(0)


def _planted_total(
    found: Tensor, values: Tensor, kept: "_Survivors", layout: Layout, *, inattention: Inattention
) -> Float[Tensor, "label row"]:
    """The values under a softmax of the kept scores, or of scores that are zero where a position is not kept."""
    kept_values = torch.where(kept.held, values.gather(-1, kept.columns), 0.0)
    if inattention == "mask":
        return torch.linalg.vecdot(masked_softmax(found, kept.held), kept_values)
    highest = found.detach().masked_fill(~kept.held, 0.0).amax(-1, keepdim=True).clamp(min=0)
    raised = torch.where(kept.held, (found - highest).exp(), 0.0)
    others = layout.real.sum(-1) - kept.held.sum(-1)  # positions that do not survive
    other = (-highest).exp().squeeze(-1)
    total = (raised.sum(-1) + other * others).clamp(min=torch.finfo(raised.dtype).tiny)
    rest = torch.where(others > 0, values.sum(-1) - kept_values.sum(-1), 0.0)
    return (torch.linalg.vecdot(raised, kept_values) + other * rest) / total


class _Survivors(NamedTuple):
    """The kept positions of each label and segment, as columns of the layout; `held` is false where there is none."""

    columns: Int[Tensor, "label row kept"]
    places: Int[Tensor, "label row kept"]
    held: Bool[Tensor, "label row kept"]


@torch.no_grad()
def _survivors(scores: Float[Tensor, "label token"], layout: Layout, k: int) -> _Survivors:
    """The `k` positions of highest score; of equal scores, those that stand first."""
    k = min(k, layout.places.shape[1])
    floor, room = _floor(scores, layout, k)
    at = _spread(scores, layout.places)
    on_floor = (at == floor) & layout.real
    kept = ((at > floor) & layout.real) | (on_floor & (on_floor.cumsum(-1, dtype=torch.int32) <= room))
    reached = kept.cumsum(-1, dtype=torch.int32)
    wanted = torch.arange(1, k + 1, dtype=torch.int32, device=at.device).expand(*kept.shape[:2], k).contiguous()
    columns = torch.searchsorted(reached, wanted).clamp(max=kept.shape[2] - 1)
    return _Survivors(columns, _at(layout.places, columns), wanted <= reached[..., -1:])


def _floor(
    scores: Float[Tensor, "label token"], layout: Layout, k: int
) -> tuple[Float[Tensor, "label row 1"], Int[Tensor, "label row 1"]]:
    """The score of the k-th best position of each segment, and how many positions of just that score are kept."""
    by_word = _spread(scores, layout.words).masked_fill(layout.counts == 0, -torch.inf)
    top, which = by_word.topk(min(k, by_word.shape[-1]), dim=-1)  # k words hold the k best positions
    counts = _at(layout.counts, which)
    last = (counts.cumsum(-1) < k).sum(-1, keepdim=True).clamp(max=top.shape[-1] - 1)
    floor = top.gather(-1, last)
    return floor, k - torch.where(top > floor, counts, 0).sum(-1, keepdim=True)


def _static_shares(
    relevance: Float[Tensor, "label token"], kept: _Survivors, *, normalised: bool
) -> Float[Tensor, "label row kept"]:
    found = torch.where(kept.held, relevance.gather(1, kept.places.flatten(1)).view(kept.places.shape), 0.0)
    return found * _share(found).unsqueeze(-1) if normalised else found


def _share(weights: Float[Tensor, "label row time"]) -> Float[Tensor, "label row"]:
    return 1 / weights.sum(-1).clamp(min=torch.finfo(weights.dtype).tiny)


def _kept_scores(
    pieces: Pieces, scores: Float[Tensor, "label token"], kept: _Survivors, ranker: Sequence[Tensor], labels: range
) -> Float[Tensor, "label row kept"]:
    """The scores of what survives, with gradients for the ranker; none come from places that hold nothing."""
    places = torch.where(kept.held, kept.places, 0).flatten(1)
    found = _KeptScores.apply(pieces, _rows(labels), scores, places, *ranker)  # type: ignore[no-untyped-call]
    return found.view(kept.places.shape)


class _KeptScores(torch.autograd.Function):
    """Scores that are already there; going back, the ranker's own pass over the survivors alone."""

    @staticmethod
    def forward(ctx: Any, pieces: Pieces, labels: slice, scores: Tensor, places: Tensor, *ranker: Tensor) -> Tensor:
        ctx.save_for_backward(places, *ranker)
        ctx.pieces, ctx.labels, ctx.n_tokens = pieces, labels, scores.shape[1]
        return scores.gather(1, places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        places, *ranker = ctx.saved_tensors
        needed = ctx.needs_input_grad[4:]
        gradients = [torch.zeros_like(t) if need else None for t, need in zip(ranker, needed, strict=True)]
        ctx.pieces.add_gradients(ranker, gradients, slice(0, ctx.n_tokens), ctx.labels, places, slopes)
        return None, None, None, None, *gradients


def _spread(values: Float[Tensor, "label some"], at: Int[Tensor, "row column"]) -> Float[Tensor, "label row column"]:
    """Columns of each label where rows ask for them."""
    return values.index_select(1, at.flatten()).unflatten(1, at.shape)


def _at(rows: Int[Tensor, "row time"], columns: Int[Tensor, "label row kept"]) -> Int[Tensor, "label row kept"]:
    """What stands in some columns of each row."""
    return rows.expand(len(columns), *rows.shape).gather(-1, columns)


def _rows(labels: range) -> slice:
    return slice(labels.start, labels.stop)
