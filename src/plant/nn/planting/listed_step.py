"""The compiled form of sparse planting: evidence, loss and gradients of a batch on a CPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from plant.nn.planting import listed_kernels as kernels
from plant.nn.planting.listed_notes import Array, ListedNotes, side_by_side
from plant.nn.planting.ranker import BilinearRanker, Ranker, TwoLayerRanker
from plant.nn.planting.rooms import Room


@dataclass(frozen=True)
class Rooms:
    """Memory of the arrays that grow with positions, labels and the vocabulary."""

    sums: Room = field(default_factory=Room)
    states: Room = field(default_factory=Room)
    of_sums: Room = field(default_factory=Room)
    weights: Room = field(default_factory=Room)
    labels: Room = field(default_factory=Room)
    tokens: Room = field(default_factory=Room)


@dataclass(frozen=True)
class Constants:
    """What a ranker that does not learn says of listed pairs: scores are filled in as they are asked for."""

    versions: tuple[tuple[int, int], ...]  # of the ranker's tensors
    scores: Array  # [entry]
    label_half: Tensor | None  # of the two-layer form


@dataclass(frozen=True)
class ListedStep:
    """A batch under sparse planting, without the tensors that learn."""

    notes: ListedNotes
    values: Array  # [entry]: relevance
    k: int
    static: bool
    normalised: bool
    form: int  # of the ranker
    constants: Constants | None
    rooms: Rooms

    @property
    def sources(self) -> list[int]:
        """Which of static and planted there are."""
        return [kernels.STATIC] * self.static + [kernels.PLANTED] * (self.form != kernels.NO_RANKER)

    def by_document(self, work: Callable[[int], None]) -> None:
        """Call `work` on every document, some side by side."""

        def run(first: int, last: int) -> None:
            for document in range(first, last):
                work(document)

        side_by_side(run, len(self.notes))

    def found(self, document: int) -> tuple[Any, ...]:
        """What kernels take for the found labels of a document."""
        return *self.notes.found_in(document), *self.notes.words, *self.notes.pairs


def evidence_of(step: ListedStep, tensors: Sequence[Tensor]) -> Float[Tensor, "document label"]:
    """The logits without the bias; `tensors` are states, weights, scales and what `ranker_tensors` gives."""
    return _Evidence.apply(step, *tensors)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Look:
    """Where all labels looked in the documents of a batch, ready for whoever asks afterwards."""

    notes: ListedNotes
    kept: Array  # [source, pair]
    shares: Array  # [source, pair]
    scales: Array  # [source]
    starts: Sequence[int]  # the first position of each document, and the end of the last

    def of(self, document: int, labels: Int[Tensor, "asked"]) -> Float[Tensor, "asked time"]:
        """The weights of some labels over a document, those of all sources added up."""
        (first, last), start = self.notes.found_in(document), self.starts[document]
        asked, found = labels.cpu().numpy(), self.notes.pairs.labels[first:last]
        places = np.searchsorted(found, asked)
        there = np.append(found, -1)[places] == asked
        weights = np.zeros((len(asked), self.starts[document + 1] - start), self.shares.dtype)
        words = (*self.notes.words, *self.notes.pairs, self.kept, self.shares, self.scales)
        if len(found):
            kernels.spread_asked(np.where(there, first + places, -1), *words, start, weights)
        return torch.from_numpy(weights)


@torch.no_grad()
def looked_of(
    step: ListedStep, tensors: Sequence[Tensor], starts: Sequence[int]
) -> tuple[Float[Tensor, "document label"], Look]:
    """The logits without the bias, and where labels looked; for predictions."""
    seen = _see(step, tensors)
    look = Look(step.notes, seen.focus.kept, seen.looked.shares, seen.looked.scales, starts)
    return _evidence(step, seen), look


def _evidence(step: ListedStep, seen: "_Seen") -> Float[Tensor, "document label"]:
    evidence = np.zeros((len(step.notes), len(seen.looked.weights)), seen.looked.weights.dtype)

    def work(document: int) -> None:
        _look(step, seen, document)
        kernels.add_evidence(*step.found(document), *seen.looked, evidence[document])

    step.by_document(work)
    return torch.from_numpy(evidence)


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
        _focus(step, seen, document)
        for source, row in zip(step.sources, found, strict=True):
            kernels.spread(*step.found(document), seen.focus.kept[source], seen.looked.shares[source], columns, row)

    step.by_document(attend)
    return [torch.from_numpy(rows) for rows in found]


def ranker_form(ranker: Ranker | None) -> int:
    """The ranker's form as kernels know it."""
    if ranker is None:
        return kernels.NO_RANKER
    return kernels.BILINEAR if isinstance(ranker, BilinearRanker) else kernels.TWO_LAYER


def ranker_tensors(ranker: Ranker | None, notes: ListedNotes, label_half: Tensor | None = None) -> tuple[Tensor, ...]:
    """What the planted source reads and teaches; `label_half` saves computing that of the two-layer form."""
    if isinstance(ranker, BilinearRanker):
        return ranker.token_vectors, ranker.token_bias, ranker.label_vectors, ranker.label_bias
    if isinstance(ranker, TwoLayerRanker):
        vectors = F.embedding(torch.from_numpy(notes.tokens), ranker.token_vectors)
        half = label_half_of(ranker) if label_half is None else label_half
        return F.linear(vectors, ranker.token_layer), half, ranker.output, ranker.output_bias
    return ()


def label_half_of(ranker: TwoLayerRanker) -> Float[Tensor, "label hidden"]:
    """The labels' half of the first layer."""
    return F.linear(ranker.label_vectors, ranker.label_layer, ranker.hidden_bias)


class _Scoring(NamedTuple):
    """What the ranker's scores are made of; empty where a form does not have it."""

    form: int
    token_rows: Array  # [place]: its row of the next two
    token_vectors: Array
    shift: Array
    label_vectors: Array
    output: Array


class _ListedFocus(NamedTuple):
    """Where labels look: how many positions of each pair survive, and where sums of states are needed."""

    kept: Array  # [source, pair]
    slots: Array  # [row]: the number of the sum up to it, or -1
    used: Array  # [document]: the first number that is left


class _Looked(NamedTuple):
    """What they look at; the last is room for a number of each pair."""

    at: Array  # [source, pair]: the number of a sum of states, or -1
    shares: Array  # [source, pair]: the weight of each
    sums: Array  # [number, size]: of states
    weights: Array  # [label, size]
    scales: Array  # [source]
    dots: Array  # [pair]


class _Seen(NamedTuple):
    states: Array
    scoring: _Scoring
    focus: _ListedFocus
    looked: _Looked


def _see(step: ListedStep, tensors: Sequence[Tensor]) -> _Seen:
    """All numbers of a batch, with room for what each document makes of them."""
    states, weights, given, *ranker = (_numbers(tensor) for tensor in tensors)
    n, kind, n_rows = len(step.notes.pairs.places), weights.dtype, len(step.notes.words.positions)
    scales = np.zeros(2, kind)
    scales[step.sources] = given
    focus = _ListedFocus(np.zeros((2, n), np.int32), np.empty(n_rows, np.int32), np.empty(len(step.notes), np.int64))
    sums = step.rooms.sums.lend((n_rows, states.shape[1]), kind)
    looked = _Looked(np.empty((2, n), np.int32), np.zeros((2, n), kind), sums, weights, scales, np.empty(n, kind))
    return _Seen(states, _scoring(step, ranker, kind), focus, looked)


def _scoring(step: ListedStep, tensors: Sequence[Array], kind: np.dtype[Any]) -> _Scoring:
    tokens, nothing = step.notes.tokens, np.empty(0, kind)
    if step.form == kernels.BILINEAR:
        return _Scoring(step.form, tokens, tensors[0], tensors[1], tensors[2], nothing)
    if step.form == kernels.TWO_LAYER:
        return _Scoring(step.form, np.arange(len(tokens)), tensors[0], nothing, tensors[1], tensors[2])
    return _Scoring(step.form, tokens, nothing.reshape(0, 0), nothing, nothing.reshape(0, 0), nothing)


def _focus(step: ListedStep, seen: _Seen, document: int) -> None:
    """Where the found labels of a document look."""
    found, (kept, shares, scores) = step.found(document), (seen.focus.kept, seen.looked.shares, seen.looked.dots)
    if step.static:
        room = (scores, kept[kernels.STATIC], shares[kernels.STATIC])
        kernels.focus_static(*found, step.k, step.normalised, step.values, *room)
    if step.form != kernels.NO_RANKER:
        room = (scores, kept[kernels.PLANTED], shares[kernels.PLANTED])
        known = np.empty(0, scores.dtype) if step.constants is None else step.constants.scores
        kernels.focus_planted(*found, step.k, known, *seen.scoring, *room)


def _look(step: ListedStep, seen: _Seen, document: int) -> None:
    """Where they look, and the sums of states that stand there."""
    _focus(step, seen, document)
    places, (kept, slots, used) = step.notes.places_in(document), seen.focus
    used[document] = kernels.number_sums(*step.found(document), *places, kept, slots, seen.looked.at)
    kernels.add_up(*places, *step.notes.words, slots, seen.states, seen.looked.sums)


class _Gradients(NamedTuple):
    """What documents add by themselves, and the slopes of their logits; empty where nobody asks for it."""

    slopes: Array  # [found]
    of_scales: Array  # [document, source], in double precision
    of_sums: Array  # [number, size]
    of_places: Array  # [place, size of the ranker]
    of_shift: Array  # [place]
    of_output: Array  # [document, size of the ranker]


def _no_gradients(step: ListedStep, seen: _Seen, needed: Sequence[bool]) -> _Gradients:
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


def _teach(step: ListedStep, seen: _Seen, gradients: _Gradients, document: int) -> None:
    """From slopes of logits to gradients of the ranker's scores and words."""
    if len(gradients.of_places):
        found, looked = step.found(document), seen.looked
        scale = looked.scales[kernels.PLANTED]
        kernels.teach_scores(*found, scale, seen.focus.kept, looked.shares, gradients.slopes, looked.dots)
        room = (gradients.of_places, gradients.of_shift, gradients.of_output[document])
        kernels.teach_tokens(*found, looked.dots, *seen.scoring, *room)


def _clear_sums(step: ListedStep, seen: _Seen, gradients: _Gradients, document: int) -> None:
    if len(gradients.of_sums):
        gradients.of_sums[step.notes.words.rows[step.notes.place_bounds[document]] : seen.focus.used[document]] = 0


class _Evidence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: ListedStep, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        seen = _see(step, tensors)
        ctx.step, ctx.seen = step, seen
        return _evidence(step, seen)

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
            _look(step, seen, document)
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
    seen: _Seen
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


def _numbers(tensor: Tensor) -> Array:
    return tensor.detach().contiguous().numpy()
