"""The compiled form of sparse planting: evidence, loss and gradients of a batch on a CPU."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from plant.nn.host import side_by_side
from plant.nn.planting import listed_kernels as kernels
from plant.nn.planting.listed_look import ListedSeen, ListedStep, Look, evidence_of_all, focus, look, look_of, see
from plant.nn.planting.listed_notes import Array, ListedNotes
from plant.nn.planting.ranker import BilinearRanker, Ranker, TwoLayerRanker


def evidence_of(step: ListedStep, tensors: Sequence[Tensor]) -> Float[Tensor, "document label"]:
    """The logits without the bias; `tensors` are states, weights, scales and what `ranker_tensors` gives."""
    return _Evidence.apply(step, *tensors)  # type: ignore[no-untyped-call]


@torch.no_grad()
def looked_of(
    step: ListedStep, tensors: Sequence[Tensor], starts: Sequence[int]
) -> tuple[Float[Tensor, "document label"], Look]:
    """The logits without the bias, and where labels looked; for predictions."""
    seen = _see(step, tensors)
    return torch.from_numpy(evidence_of_all(step, seen)), look_of(step, seen, starts)


def loss_of(
    step: ListedStep, tensors: Sequence[Tensor], bias: Float[Tensor, "label"], targets: Float[Tensor, "document label"]
) -> Float[Tensor, ""]:
    """The mean binary cross-entropy; most of its gradients are ready when it returns."""
    return _Loss.apply(step, targets.to(bias.dtype), bias, *tensors)  # type: ignore[no-untyped-call]


@torch.no_grad()
def attention_of(
    step: ListedStep, tensors: Sequence[Tensor], labels: Int[Tensor, "asked"], n_positions: int
) -> list[Float[Tensor, "asked position"]]:
    """The weights of each source for labels that differ and whose pairs the notes were read for."""
    seen, weights = _see(step, tensors), tensors[1]
    columns = np.zeros(len(weights), np.int64)
    columns[labels.numpy()] = np.arange(len(labels))
    found = [np.zeros((len(labels), n_positions), seen.looked.shares.dtype) for _ in step.sources]

    def attend(document: int) -> None:
        focus(step, seen, document)
        for source, row in zip(step.sources, found, strict=True):
            kernels.spread(*step.found(document), seen.focus.kept[source], seen.looked.shares[source], columns, row)

    step.by_document(attend)
    return [torch.from_numpy(rows) for rows in found]


def ranker_form(ranker: Ranker | None) -> int:
    """The ranker's form as kernels know it."""
    if ranker is None:
        return kernels.NO_RANKER
    return kernels.BILINEAR if isinstance(ranker, BilinearRanker) else kernels.TWO_LAYER


def ranker_tensors(ranker: Ranker | None, notes: ListedNotes, label_half: Array | None = None) -> tuple[Tensor, ...]:
    """What the planted source reads and teaches; `label_half` saves computing that of the two-layer form."""
    if isinstance(ranker, BilinearRanker):
        return ranker.token_vectors, ranker.token_bias, ranker.label_vectors, ranker.label_bias
    if isinstance(ranker, TwoLayerRanker):
        vectors = F.embedding(torch.from_numpy(notes.tokens), ranker.token_vectors)
        half = label_half_of(ranker) if label_half is None else torch.from_numpy(label_half)
        return F.linear(vectors, ranker.token_layer), half, ranker.output, ranker.output_bias
    return ()


def label_half_of(ranker: TwoLayerRanker) -> Float[Tensor, "label hidden"]:
    """The labels' half of the first layer."""
    return F.linear(ranker.label_vectors, ranker.label_layer, ranker.hidden_bias)


class _Gradients(NamedTuple):
    """What documents add by themselves, and the slopes of their logits; empty where nobody asks for it."""

    slopes: Array  # [found]
    of_scales: Array  # [document, source], in double precision
    of_sums: Array  # [number, size]
    of_places: Array  # [place, size of the ranker]
    of_shift: Array  # [place]
    of_output: Array  # [document, size of the ranker]


def _no_gradients(step: ListedStep, seen: ListedSeen, needed: Sequence[bool]) -> _Gradients:
    n_documents, n_places = len(step.notes), len(step.notes.tokens)
    kind, width = seen.looked.weights.dtype, seen.scoring.token_vectors.shape[1]
    return _Gradients(
        slopes=np.empty(len(seen.looked.dots), kind),
        of_scales=np.zeros((n_documents, 2)),
        of_sums=step.rooms.of_sums.lend(seen.looked.sums.shape if needed[0] else (0, seen.states.shape[1]), kind),
        of_places=np.zeros((n_places if any(needed[3:]) else 0, width), kind),
        of_shift=np.zeros(n_places, kind),
        of_output=np.zeros((n_documents, width), kind),
    )


def _teach(step: ListedStep, seen: ListedSeen, gradients: _Gradients, document: int) -> None:
    """From slopes of logits to gradients of the ranker's scores and words."""
    if len(gradients.of_places):
        found, looked = step.found(document), seen.looked
        scale = looked.scales[kernels.PLANTED]
        kernels.teach_scores(*found, scale, seen.focus.kept, looked.shares, gradients.slopes, looked.dots)
        room = (gradients.of_places, gradients.of_shift, gradients.of_output[document])
        kernels.teach_tokens(*found, looked.dots, *seen.scoring, *room)


def _clear_sums(step: ListedStep, seen: ListedSeen, gradients: _Gradients, document: int) -> None:
    if len(gradients.of_sums):
        gradients.of_sums[step.notes.words.rows[step.notes.place_bounds[document]] : seen.focus.used[document]] = 0


class _Evidence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: ListedStep, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        seen = _see(step, tensors)
        ctx.step, ctx.seen = step, seen
        return torch.from_numpy(evidence_of_all(step, seen))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        step, seen, needed = ctx.step, ctx.seen, ctx.needs_input_grad[1:]
        tensors, given = ctx.saved_tensors, _numbers(slopes)
        gradients = _no_gradients(step, seen, needed)

        def work(document: int) -> None:
            _clear_sums(step, seen, gradients, document)
            rest = (given[document], gradients.slopes, gradients.of_scales[document], gradients.of_sums)
            kernels.learn_slopes(*step.found(document), *seen.looked, *rest)
            _teach(step, seen, gradients, document)

        step.by_document(work)
        return None, *_Descent(step, seen, gradients).gradients_of(tensors, needed)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: ListedStep, targets: Tensor, bias: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(targets, bias, *tensors)
        seen = _see(step, tensors)
        gradients = _no_gradients(step, seen, ctx.needs_input_grad[3:])
        truth, priors = _numbers(targets), (_numbers(bias), _numbers(-F.logsigmoid(-bias)))
        losses = np.zeros(len(step.notes))

        def work(document: int) -> None:
            look(step, seen, document)
            _clear_sums(step, seen, gradients, document)
            rest = (gradients.slopes, gradients.of_scales[document], gradients.of_sums)
            given = (*priors, truth[document], truth.size)
            losses[document] = kernels.learn_loss(*step.found(document), *seen.looked, *given, *rest)
            _teach(step, seen, gradients, document)

        step.by_document(work)
        ctx.descent = _Descent(step, seen, gradients)
        return bias.new_tensor(losses.sum() / truth.size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.descent is None:
            raise RuntimeError("the fused loss goes backward once; take the logits to keep the graph")
        descent, ctx.descent = replace(ctx.descent, factor=float(slope)), None  # its memory is needed for the next one
        targets, bias, *tensors = ctx.saved_tensors
        of_bias = descent.gradient_of_bias(bias, targets) if ctx.needs_input_grad[2] else None
        return None, None, of_bias, *descent.gradients_of(tensors, ctx.needs_input_grad[3:])


@dataclass(frozen=True)
class _Descent:
    """What documents ask for, and the slope of what was made of it: now labels and words are taught."""

    step: ListedStep
    seen: ListedSeen
    gradients: _Gradients
    factor: float = 1.0

    def gradients_of(self, tensors: Sequence[Tensor], needed: Sequence[bool]) -> list[Tensor | None]:
        """The gradients of states, weights, scales and the ranker's tensors, as far as they are needed."""
        of_scales = torch.from_numpy(self.gradients.of_scales.sum(0)[self.step.sources] * self.factor)
        found = [
            self._of_states() if needed[0] else None,
            self._of_weights() if needed[1] else None,
            of_scales.to(tensors[2].dtype) if needed[2] else None,
            *(self._of_ranker(tensors[3:]) if any(needed[3:]) else [None] * len(needed[3:])),
        ]
        return [gradient if need else None for gradient, need in zip(found, needed, strict=True)]

    def gradient_of_bias(self, bias: Tensor, targets: Tensor) -> Tensor:
        """That of all labels, found or not."""
        of_bias, labels = np.empty(len(bias), self.seen.looked.weights.dtype), self.step.notes.pairs.labels
        rest = (labels, self.gradients.slopes, _numbers(bias.sigmoid()), _numbers(targets), of_bias)
        self._by_label(kernels.teach_bias, rest, len(bias))
        return torch.from_numpy(of_bias)

    def _of_states(self) -> Tensor:
        notes, states = self.step.notes, self.seen.states
        of_states = self.step.rooms.states.lend(states.shape, states.dtype)
        unseen = np.ones(len(states), np.bool_)
        unseen[notes.words.positions] = False
        of_states[unseen] = 0
        rest = (*notes.words, self.factor, self.seen.focus.slots, self.gradients.of_sums, of_states)
        self.step.by_document(lambda document: kernels.take_apart(*notes.places_in(document), *rest))
        return torch.from_numpy(of_states)

    def _of_weights(self) -> Tensor:
        notes, looked = self.step.notes, self.seen.looked
        of_weights = self.step.rooms.weights.lend(looked.weights.shape, looked.weights.dtype)
        rest = (looked.at, looked.shares, self.gradients.slopes, looked.scales, looked.sums, of_weights)
        self._by_label(kernels.teach_weights, (*notes.words, *notes.pairs, *rest), len(of_weights))
        return torch.from_numpy(of_weights)

    def _of_ranker(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The last tensor shifts the scores of all words alike: it changes nothing."""
        nothing, of_labels = torch.zeros_like(tensors[3]), self._of_label_vectors()
        if self.step.form == kernels.BILINEAR:
            return *self._of_vocabulary(), of_labels, nothing
        of_halves, of_output = (
            torch.from_numpy(a) for a in (self.gradients.of_places, self.gradients.of_output.sum(0))
        )
        return of_halves.mul_(self.factor), of_labels, of_output.mul_(self.factor), nothing

    def _of_label_vectors(self) -> Tensor:
        notes, scoring, by_score = self.step.notes, self.seen.scoring, self.seen.looked.dots
        of_labels = self.step.rooms.labels.lend(scoring.label_vectors.shape, by_score.dtype)
        rest = (*notes.words, *notes.pairs, by_score, *scoring, of_labels)
        self._by_label(kernels.teach_labels, rest, len(of_labels))
        return torch.from_numpy(of_labels)

    def _of_vocabulary(self) -> tuple[Tensor, Tensor]:
        shape, kind = self.seen.scoring.token_vectors.shape, self.seen.looked.weights.dtype
        of_tokens, of_shift = self.step.rooms.tokens.lend(shape, kind), np.empty(shape[0], kind)
        rest = (self.step.notes.tokens, self.gradients.of_places, self.gradients.of_shift, of_tokens, of_shift)
        side_by_side(lambda *part: kernels.teach_vocabulary(*part, self.factor, *rest), shape[0])
        return torch.from_numpy(of_tokens), torch.from_numpy(of_shift)

    def _by_label(self, kernel: kernels.Kernel, rest: tuple[Any, ...], n_labels: int) -> None:
        """Call a kernel that walks over labels."""

        def work(first: int, last: int) -> None:
            kernel(first, last, *self.step.notes.found_from(first), self.factor, *rest)

        side_by_side(work, n_labels)


def _see(step: ListedStep, tensors: Sequence[Tensor]) -> ListedSeen:
    return see(step, [_numbers(tensor) for tensor in tensors])


def _numbers(tensor: Tensor) -> Array:
    return tensor.detach().contiguous().numpy()
