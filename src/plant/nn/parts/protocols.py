"""What an encoder, a decoder and a loss are; anything of this shape goes with anything else of this shape."""

from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from plant.nn.language.windows import Layout, Plan
from plant.tensors import Batch, Decoded, Encoded, Subwords, Windows
from plant.text.subwords import SubwordTokenizer

Carry = TypeVar("Carry")


@runtime_checkable
class Encoder(Protocol):
    """Turns tokens into features of width `size`."""

    size: int

    def __call__(self, batch: Batch) -> Encoded: ...


@runtime_checkable
class LayeredEncoder(Encoder, Protocol):
    """An encoder whose layers can be unfrozen one by one."""

    def layer_modules(self) -> Sequence[nn.Module]:
        """The layers from the words up."""
        ...


@runtime_checkable
class SubwordEncoder(Encoder, Protocol):
    """An encoder that reads the sub-words of a text, in windows, instead of the vocabulary's words."""

    tokenizer: SubwordTokenizer | None
    blank: int  # the sub-word that hides another
    plan: Plan
    full_windows: bool

    def read_windows(self, subwords: Subwords, layout: Layout, *, width: int = 0) -> Windows:
        """The states of some windows between two special positions, padded to the longest or to `width` sub-words."""
        ...


@runtime_checkable
class StatefulEncoder(Encoder, Protocol[Carry]):
    """An encoder that can go on where it stopped: reading in pieces gives what reading at once gives."""

    def read(
        self, tokens: Int[Tensor, "batch time"], carry: Carry | None
    ) -> tuple[Float[Tensor, "batch time size"], Carry]: ...


@runtime_checkable
class Decoder(Protocol):
    """Turns features into one logit per label."""

    def __call__(self, encoded: Encoded) -> Decoded: ...


@runtime_checkable
class AttentionDecoder(Decoder, Protocol):
    """A decoder that can say, afterwards, where it looked for each label."""

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]: ...


@runtime_checkable
class SourcedDecoder(Decoder, Protocol):
    """A decoder whose attention has several sources, which can be asked for one by one."""

    names: tuple[str, ...]

    def attend_by_source(
        self, encoded: Encoded, labels: Int[Tensor, "asked"]
    ) -> dict[str, Float[Tensor, "batch asked time"]]: ...


@runtime_checkable
class FusedDecoder(Decoder, Protocol):
    """A decoder that computes the mean binary cross-entropy itself, without holding logits and gradients apart."""

    def loss(self, encoded: Encoded, targets: Float[Tensor, "batch label"]) -> Float[Tensor, ""]: ...


@runtime_checkable
class SegmentDecoder(Decoder, Protocol):
    """A decoder whose attention stays within runs of `segment` tokens (0: the document), so that logits add up."""

    segment: int

    def evidence(self, encoded: Encoded) -> Float[Tensor, "batch label"]:
        """The logits without the bias, which counts once for a document."""
        ...

    @property
    def prior(self) -> Float[Tensor, "label"]:
        """The bias."""
        ...


@runtime_checkable
class Loss(Protocol):
    """Turns logits and targets into one number."""

    def __call__(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]: ...


class TokenLists(Protocol):
    """Token t is listed by `labels[starts[t]:starts[t + 1]]`, rising, with these scores."""

    @property
    def starts(self) -> NDArray[np.int64]: ...
    @property
    def labels(self) -> NDArray[np.int32]: ...
    @property
    def scores(self) -> NDArray[np.float32]: ...


class Relevance(Protocol):
    """What static planting needs of `plant.relevance.relevance.Relevance`."""

    def first(self, n: int) -> "Relevance": ...

    def by_token(self) -> TokenLists: ...
