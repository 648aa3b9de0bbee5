"""Windows of sub-words over whole documents: where they lie, what is read of each position, and how they are joined."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plant.errors import RecipeError
from plant.tensors import Encoded, Windows

Joining = Literal["max", "mean"]


@dataclass(frozen=True)
class WindowPlan:
    """Windows of `length` sub-words, each `overlap` of them shared with the next; at most `most` windows (0: any)."""

    length: int
    overlap: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < self.length:
            raise RecipeError(f"windows of {self.length} sub-words cannot overlap by {self.overlap}: take fewer")

    @property
    def step(self) -> int:
        """From the beginning of a window to that of the next."""
        return self.length - self.overlap

    def count(self, n_subwords: int) -> int:
        """How many windows cover so many sub-words."""
        needed = 1 + max(0, -(-(n_subwords - self.length) // self.step)) if n_subwords else 0
        return min(needed, self.most) if self.most else needed

    def covered(self, n_subwords: int) -> int:
        """How many sub-words the windows reach; fewer than there are only where `most` says so."""
        windows = self.count(n_subwords)
        return min(n_subwords, (windows - 1) * self.step + self.length) if windows else 0


@dataclass(frozen=True)
class Layout:
    """The windows of a batch, of all documents one after the other."""

    documents: Int[Tensor, "window"]
    starts: Int[Tensor, "window"]  # the first sub-word of each, in its document
    lengths: Int[Tensor, "window"]
    counts: tuple[int, ...]


def lay_out(n_subwords: list[int], plan: WindowPlan) -> Layout:
    """The windows of documents with so many sub-words."""
    counts = tuple(plan.count(n) for n in n_subwords)
    starts = [number * plan.step for count in counts for number in range(count)]
    rows = [row for row, count in enumerate(counts) for _ in range(count)]
    lengths = [min(plan.length, n_subwords[row] - start) for row, start in zip(rows, starts, strict=True)]
    return Layout(torch.tensor(rows).long(), torch.tensor(starts).long(), torch.tensor(lengths).long(), counts)


def innermost(n_subwords: int, plan: WindowPlan) -> Int[Tensor, "part"]:
    """For each sub-word that windows cover, the window in which it stands furthest inside, the earlier of two."""
    places = torch.arange(plan.covered(n_subwords))
    doubled = 2 * places - (plan.length - 1)  # twice the distance from the middle of the first window
    nearest = torch.div(doubled + plan.step - 1, 2 * plan.step, rounding_mode="floor")
    return nearest.clamp(0, max(0, plan.count(n_subwords) - 1))


def windows_of(encoded: Encoded) -> Windows:
    """The windows that the encoder read; the whole document as one where it does not read in windows."""
    if encoded.windows is not None:
        return encoded.windows
    places = torch.arange(encoded.mask.shape[1], device=encoded.mask.device)
    words = torch.where(encoded.mask, places, -1)
    return Windows(encoded.states, encoded.mask, words, (1,) * len(encoded.mask))


def joined(
    logits: Float[Tensor, "window label"], counts: tuple[int, ...], how: Joining, *, without: Float[Tensor, "label"]
) -> Float[Tensor, "batch label"]:
    """One row per document: the largest or the mean of its windows' logits, `without` where it has no window."""
    parts = logits.split(counts)
    rows = [(part.amax(0) if how == "max" else part.mean(0)) if len(part) else without for part in parts]
    return torch.stack(rows)


def at_words(
    weights: Float[Tensor, "window asked position"], windows: Windows, *, n_words: int
) -> Float[Tensor, "batch asked word"]:
    """Weights of positions, added up at their words over all windows of a document."""
    places = windows.words.clamp(min=0)
    kept = torch.where((windows.words >= 0).unsqueeze(1), weights, 0.0)
    empty = weights.new_zeros(*weights.shape[:2], n_words)
    spread = empty.scatter_add(-1, places.unsqueeze(1).expand_as(kept), kept)
    return torch.stack([part.sum(0) for part in spread.split(windows.counts)])


def decisive(
    logits: Float[Tensor, "window label"], counts: tuple[int, ...], how: Joining
) -> Bool[Tensor, "window label"]:
    """Which windows decide a label: the best of each document for a maximum, all for a mean."""
    if how == "mean":
        return torch.ones_like(logits, dtype=torch.bool)
    return torch.cat([part == part.amax(0) if len(part) else part.bool() for part in logits.split(counts)])
