"""Labels spread over processes: each holds the decoder's rows of a range of labels, and their moments in the optimizer.

A label's logit depends on its own rows alone, so every process reads all notes, decodes its labels, and what the
processes share (encoder, scales, words of a ranker) gets the sum of their gradients. Rows of labels are never sent
while an update is made. The result is that of one process up to the order in which floats are added.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from plant.errors import InputError
from plant.nn.classifier import Classifier
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.nn.planting.ranker import RANKERS
from plant.nn.planting.ranker_store import ranker_from
from plant.recipe.schema import Recipe
from plant.relevance.relevance import Relevance
from plant.train.checkpoint import load_checkpoint
from plant.train.seed import seeded
from plant.train.together import Together

DECODERS = ("planted", "label-attention")  # whose labels do not know of one another
LOSSES = ("bce", "focal", "asymmetric")  # means over labels


def check_ranges(recipe: Recipe) -> None:
    """Refuse parts that look at all labels at once."""
    for what, name, able in (("decoder", recipe.decoder.name, DECODERS), ("loss", recipe.loss.name, LOSSES)):
        if name not in able or recipe.decoder.options.get("interaction"):
            raise InputError(
                f"labels are spread over processes with {what} {' or '.join(able)}, not with {name!r}: "
                "let processes share notes (--share notes)"
            )


def label_range(n_labels: int, rank: int, size: int) -> range:
    """The labels of one of several processes, as many as of the others, or one more."""
    if size > n_labels:
        raise InputError(f"{n_labels} labels are spread over {size} processes: take fewer")
    return range(n_labels * rank // size, n_labels * (rank + 1) // size)


@dataclass(frozen=True)
class Ranged:
    """A process that takes all steps of a training for its own labels; `own` are the parameters with rows of these."""

    group: Together
    own: frozenset[int]  # by identity
    rank: int = 0  # to the loop it is the only process: it computes every micro-batch and keeps a checkpoint
    size: int = 1
    by_labels: bool = True

    def computed(self, number: int, parameters: Sequence[nn.Parameter]) -> None:
        """The gradients are where they belong."""

    def sum_gradients(self, parameters: Sequence[nn.Parameter], *, micro_batches: int) -> None:
        shared = [parameter for parameter in parameters if id(parameter) not in self.own]
        self.group.sum_gradients(shared, micro_batches=micro_batches)

    def clip(self, parameters: Sequence[nn.Parameter], most: float) -> None:
        """By the norm of all gradients: those of shared parameters once, and of the rows of all processes."""
        squares = [0.0, 0.0]  # shared, own
        for parameter in parameters:
            if parameter.grad is not None:
                squares[id(parameter) in self.own] += float(parameter.grad.double().square().sum())
        norm = (squares[0] + self.group.totals(squares[1:])[0]) ** 0.5
        share = min(1.0, most / (norm + 1e-6))  # as torch does
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(share)

    def totals(self, values: Sequence[float]) -> list[float]:
        return self.group.totals(values)

    def gathered(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return rows  # every process computed all of them

    def wait(self) -> None:
        """All parts of a checkpoint are written before one takes its place."""
        self.group.totals([0.0])


def given_of(given: Given, labels: range) -> Given:
    """What parts are given for some labels only."""
    some = slice(labels.start, labels.stop)
    ranker, relevance = given.ranker, given.relevance
    if ranker is not None:
        forms = {kind: form for form, kind in RANKERS.builders.items()}
        tensors = {name: t[some] if name in ranker.by_label else t for name, t in ranker.state_dict().items()}
        ranker = ranker_from(tensors, forms[type(ranker)])
    return replace(
        given,
        codes=given.codes[some],
        frequencies=given.frequencies[some],
        relevance=None if relevance is None else _rows_of(relevance, some),
        ranker=ranker,
    )


def _rows_of(relevance: Relevance, some: slice) -> Relevance:
    rows = {name: getattr(relevance, name)[some] for name in ("codes", "tokens", "scores", "label_counts")}
    return replace(relevance, **rows)


@dataclass(frozen=True)
class RangedClassifier:
    """The part of a classifier that has some of its labels, and how it becomes the whole again."""

    part: Classifier
    labels: range
    n_labels: int
    group: Together
    own: frozenset[str]  # names of parameters with rows of these labels

    @property
    def together(self) -> Ranged:
        """This process among the others, as the training loop sees it."""
        return Ranged(self.group, frozenset(id(p) for name, p in self.part.named_parameters() if name in self.own))

    def columns(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values of notes and these labels as those of all labels, [note, label], gathered from all processes."""
        wide = np.zeros((len(values), self.n_labels), np.float32)
        wide[:, self.labels.start : self.labels.stop] = values
        return self.group.gathered(wide)

    @torch.no_grad()
    def rejoin(self, whole: Classifier) -> Classifier:
        """Give a classifier of all labels what the processes have learned."""
        some, part = slice(self.labels.start, self.labels.stop), self.part.cpu()
        for (name, mine), theirs in zip(part.named_parameters(), whole.parameters(), strict=True):
            if name in self.own:
                rows = np.zeros((self.n_labels, mine[0].numel()), np.float32)
                rows[some] = mine.reshape(len(mine), -1).numpy()
                theirs.copy_(torch.from_numpy(self.group.gathered(rows)).reshape(theirs.shape))
            else:
                theirs.copy_(mine)
        _copy_buffers(part, whole)
        return whole


def ranged_classifier(recipe: Recipe, given: Given, group: Together) -> RangedClassifier:
    """The part of this process, which starts as those rows of the whole do; the whole is let go of."""
    labels = label_range(len(given.codes), group.rank, group.size)
    some = slice(labels.start, labels.stop)
    with seeded(recipe.seed):
        whole = build_classifier(recipe, given)
    with seeded(recipe.seed):
        part = build_classifier(recipe, given_of(given, labels))
    own = set()
    with torch.no_grad():
        for (name, mine), theirs in zip(part.named_parameters(), whole.parameters(), strict=True):
            if mine.shape != theirs.shape:
                own.add(name)
            mine.copy_(theirs[some] if name in own else theirs)
    _copy_buffers(whole, part)
    if isinstance(part.decoder, PlantedDecoder) and isinstance(whole.decoder, PlantedDecoder):
        part.decoder.read_like(whole.decoder)
    return RangedClassifier(part, labels, len(given.codes), group, frozenset(own))


def _copy_buffers(source: nn.Module, target: nn.Module) -> None:
    """Those that a saved model would have: the rest comes from what a part was given."""
    kept: dict[str, Tensor] = dict(source.state_dict())
    for name, buffer in target.named_buffers():
        if name in kept and kept[name].shape == buffer.shape:
            buffer.copy_(kept[name])


def agreed_checkpoint(path: Path | None, group: Together) -> Path | None:
    """Where this process keeps its part of the checkpoint; parts that are not of one moment are dropped by all.

    That is seen only after a kill in the moment in which written parts take their places.
    """
    if path is None:
        return None
    mine = path.with_name(f"{path.stem}-{group.rank}-of-{group.size}{path.suffix}")
    found = load_checkpoint(mine)
    moment = 0.0 if found is None else found.state["epoch"] * 1e9 + found.state["step"] + 1
    moments = group.totals([moment if rank == group.rank else 0.0 for rank in range(group.size)])
    if len(set(moments)) > 1:
        mine.unlink(missing_ok=True)
    return mine
