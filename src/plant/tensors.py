"""The tensors that walk through a model: batch -> encoded -> decoded."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor


@dataclass(frozen=True)
class Subwords:
    """Sub-words of a batch, and for each the place of its word in the document, -1 at padding."""

    numbers: Int[Tensor, "batch part"]
    words: Int[Tensor, "batch part"]

    def to(self, device: torch.device | str) -> "Subwords":
        """The same on another device."""
        return Subwords(self.numbers.to(device), self.words.to(device))

    def document(self, row: int) -> "Subwords":
        """Those of one document alone."""
        rows, real = slice(row, row + 1), slice(int((self.words[row] >= 0).sum()))
        return Subwords(self.numbers[rows, real], self.words[rows, real])


@dataclass(frozen=True)
class Structure:
    """The heading that each token of a batch stands under, and its sentence; zero at padding."""

    headings: Int[Tensor, "batch time"]
    sentences: Int[Tensor, "batch time"]

    def to(self, device: torch.device | str) -> "Structure":
        """The same on another device."""
        return Structure(self.headings.to(device), self.sentences.to(device))

    def document(self, row: int, length: int) -> "Structure":
        """That of one document alone."""
        return Structure(self.headings[row : row + 1, :length], self.sentences[row : row + 1, :length])


@dataclass(frozen=True)
class OnHost:
    """Tokens and mask of a batch that went to another device, where reading them waits for nobody."""

    tokens: Int[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]


@dataclass(frozen=True)
class Batch:
    """Documents padded to one length; `mask` is true at real tokens. `targets` has a column per label.

    Sub-words are there for encoders that read them; `on_host` once the batch went to another device. `passes` is how
    often the same documents stand in the batch, one after the other, for losses that compare readings.
    """

    tokens: Int[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]
    targets: Float[Tensor, "batch label"] | None = None
    subwords: Subwords | None = None
    on_host: OnHost | None = None
    passes: int = 1
    structure: Structure | None = None

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        targets = None if self.targets is None else self.targets.to(device)
        subwords = None if self.subwords is None else self.subwords.to(device)
        leaves = self.tokens.device.type == "cpu" and torch.device(device).type != "cpu"
        return replace(
            self,
            tokens=self.tokens.to(device),
            mask=self.mask.to(device),
            targets=targets,
            subwords=subwords,
            structure=None if self.structure is None else self.structure.to(device),
            on_host=OnHost(self.tokens, self.mask) if leaves else self.on_host,
        )

    def within(self, time: slice) -> "Batch":
        """Some positions of every document, without targets and sub-words."""
        host = self.on_host
        on_host = None if host is None else OnHost(host.tokens[:, time], host.mask[:, time])
        return Batch(self.tokens[:, time], self.mask[:, time], on_host=on_host)


@dataclass(frozen=True)
class Chosen:
    """Some positions of each document of a batch, rising; `mask` is false where a document has fewer than others."""

    places: Int[Tensor, "batch place"]
    mask: Bool[Tensor, "batch place"]

    def of(self, values: Shaped[Tensor, "batch time *rest"]) -> Shaped[Tensor, "batch place *rest"]:
        """What stands at these positions; where there are fewer, what stands at the first position of the document."""
        return values[torch.arange(len(values), device=values.device).unsqueeze(1), self.places]


def chosen_by(wanted: Bool[Tensor, "batch time"]) -> Chosen:
    """The positions where `wanted` is true."""
    counts, (rows, positions) = wanted.sum(1), wanted.nonzero(as_tuple=True)
    mask = torch.arange(max(1, int(counts.max())), device=wanted.device) < counts.unsqueeze(1)
    places = torch.zeros(mask.shape, dtype=torch.int64, device=wanted.device)
    places[rows, wanted.cumsum(1)[rows, positions] - 1] = positions
    return Chosen(places, mask)


def backward_order(mask: Bool[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
    """For each document its positions from the last to the first, then the padding; the same order undoes itself."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)


def in_order(
    values: Shaped[Tensor, "batch time size"], order: Int[Tensor, "batch time"]
) -> Shaped[Tensor, "batch time size"]:
    """What stands at the positions of each document, in another order."""
    return values.gather(1, order.unsqueeze(-1).expand(values.shape))


@dataclass(frozen=True)
class Windows:
    """Documents as an encoder reads them, in windows of sub-words, those of the first document first.

    The first position of a window stands for the whole of it. `words` is the place of each position's word in the
    document, -1 where a position belongs to none; `mask` is true where the encoder read something.
    """

    states: Float[Tensor, "window position size"]
    mask: Bool[Tensor, "window position"]
    words: Int[Tensor, "window position"]
    counts: tuple[int, ...]  # how many windows each document has

    def document(self, row: int) -> "Windows":
        """The windows of one document."""
        first = sum(self.counts[:row])
        own = slice(first, first + self.counts[row])
        return Windows(self.states[own], self.mask[own], self.words[own], self.counts[row : row + 1])


def is_traced() -> bool:
    """Whether a model is being traced, to be exported: values of tensors are those of an example then."""
    traced: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return traced


@dataclass(frozen=True)
class Encoded:
    """Token features of a batch; what stands where `mask` is false means nothing and must change nothing.

    An encoder that reads sub-words in windows gives those too. `on_host` is as in `Batch`; without it, who needs to
    know where words stand waits for the device. `from_end`: whoever cuts documents into segments begins at their end,
    as the encoder did.
    """

    states: Float[Tensor, "batch time size"]
    tokens: Int[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]
    windows: Windows | None = None
    subwords: Subwords | None = None
    on_host: OnHost | None = None
    from_end: bool = False
    structure: Structure | None = None

    @property
    def host(self) -> OnHost:
        """Tokens and mask where the host reads them, to compute what goes by their values.

        A trace would take the values of its example for constants.
        """
        if is_traced():
            raise NotImplementedError("what this part computes goes by the words of each document")
        return self.on_host or OnHost(self.tokens.cpu(), self.mask.cpu())

    def document(self, row: int) -> "Encoded":
        """One document alone, without its padding."""
        rows, real = slice(row, row + 1), slice(int(self.mask[row].sum()))
        windows = None if self.windows is None else self.windows.document(row)
        subwords = None if self.subwords is None else self.subwords.document(row)
        states, tokens, mask = self.states[rows, real], self.tokens[rows, real], self.mask[rows, real]
        structure = None if self.structure is None else self.structure.document(row, tokens.shape[1])
        return Encoded(states, tokens, mask, windows, subwords, from_end=self.from_end, structure=structure)


@dataclass(frozen=True)
class Decoded:
    """One logit per document and label; `extras` are side results that a loss may ask for by name."""

    logits: Float[Tensor, "batch label"]
    extras: Mapping[str, Tensor] = field(default_factory=lambda: MappingProxyType({}))
