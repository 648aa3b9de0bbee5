"""What an encoder, a decoder and a loss are; anything of this shape goes with anything else of this shape."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from plant.nn.language.windows import Layout, WindowPlan
from plant.tensors import Batch, Chosen, Decoded, Encoded, Subwords, Windows
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
class SelectiveEncoder(Encoder, Protocol):
    """An encoder that can compute the states of some positions and leave the others."""

    def states_at(self, batch: Batch, chosen: Chosen) -> Float[Tensor, "batch place size"]:
        """The states of chosen positions, as a reading of the whole gives them."""
        ...


@runtime_checkable
class SubwordEncoder(Encoder, Protocol):
    """An encoder that reads the sub-words of a text, in windows, instead of the vocabulary's words."""

    tokenizer: SubwordTokenizer | None
    blank: int  # the sub-word that hides another
    plan: WindowPlan
    full_windows: bool

    def read_windows(self, subwords: Subwords, layout: Layout, *, width: int = 0) -> Windows:
        """The states of some windows between two special positions, padded to the longest or to `width` sub-words."""
        ...


@runtime_checkable
class QuantizableEncoder(Encoder, Protocol):
    """An encoder that has a form with weights of eight bits."""

    def quantized(self) -> Encoder:
        """A copy for inference on CPUs."""
        ...


@runtime_checkable
class StatefulEncoder(Encoder, Protocol[Carry]):
    """An encoder that can go on where it stopped: reading in pieces gives what reading at once gives.

    Pieces come in the order in which it reads: those of a backward encoder from the end, their words turned around.
    """

    def read(
        self, tokens: Int[Tensor, "batch time"], carry: Carry | None
    ) -> tuple[Float[Tensor, "batch time size"], Carry]: ...


@runtime_checkable
class DirectedEncoder(Encoder, Protocol):
    """An encoder that says from which end it reads."""

    direction: Literal["forward", "backward"]


@runtime_checkable
class Decoder(Protocol):
    """Turns features into one logit per label."""

    def __call__(self, encoded: Encoded) -> Decoded: ...


@runtime_checkable
class AttentionDecoder(Decoder, Protocol):
    """A decoder that can say, afterwards, where it looked for each label."""

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]: ...


@runtime_checkable
class AskedDecoder(AttentionDecoder, Protocol):
    """A decoder that has the logits of some labels of each document without those of all others."""

    def score(self, encoded: Encoded, labels: Int[Tensor, "batch asked"]) -> Float[Tensor, "batch asked"]: ...


Looked = Callable[[int, Int[Tensor, "asked"]], Float[Tensor, "asked time"]]
"""Called as `looked(row, labels)`: what `attend` says of one document of a batch, over its real positions."""


@runtime_checkable
class LookingDecoder(AttentionDecoder, Protocol):
    """A decoder that can keep where it looked while it decodes, so that evidence costs next to nothing."""

    def look(self, encoded: Encoded) -> tuple[Decoded, Looked]:
        """The logits, and where labels looked."""
        ...


@runtime_checkable
class EvidentDecoder(AttentionDecoder, Protocol):
    """A decoder that says whether its attention is the evidence itself, so that nothing need be asked besides."""

    @property
    def evident(self) -> bool: ...


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
class SelectiveDecoder(Decoder, Protocol):
    """A decoder to which documents without some of their positions are the same."""

    def looks_at(
        self, tokens: Int[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]
    ) -> Bool[Tensor, "batch time"] | None:
        """The positions that it needs; None where it needs all."""
        ...


@runtime_checkable
class WindowDecoder(Decoder, Protocol):
    """A decoder that says whether it reads the encoder's windows instead of its words."""

    @property
    def reads_windows(self) -> bool: ...


@runtime_checkable
class RankedDecoder(Decoder, Protocol):
    """A decoder into which a ranker may be planted, which learns at a rate of its own."""

    def planted_ranker(self) -> nn.Module | None: ...


@runtime_checkable
class TitleDecoder(Decoder, Protocol):
    """A decoder that knows a label by its title alone, so that labels can be added to a trained one."""

    reads_titles: bool


@runtime_checkable
class TaughtDecoder(Decoder, Protocol):
    """A decoder whose side results in training depend on the truth, as a teacher's do who reads it."""

    def taught(self, encoded: Encoded, targets: Float[Tensor, "batch label"]) -> Decoded:
        """The logits that `forward` gives, and the side results."""
        ...


@runtime_checkable
class ExtraDecoder(Decoder, Protocol):
    """A decoder that gives side results, by these names, to losses that ask for them."""

    @property
    def gives(self) -> frozenset[str]: ...


@runtime_checkable
class StructuredEncoder(Encoder, Protocol):
    """An encoder that looks at the headings of a text, of which it knows so many numbers."""

    reads_structure: bool
    n_headings: int


@runtime_checkable
class StructuredDecoder(Decoder, Protocol):
    """A decoder that looks at the sentences of a text."""

    reads_structure: bool


def headings_read(encoder: Encoder, decoder: Decoder) -> int:
    """How many numbers headings need; 0 where nobody looks at the structure of texts."""
    if isinstance(encoder, StructuredEncoder) and encoder.reads_structure:
        return encoder.n_headings
    return int(isinstance(decoder, StructuredDecoder) and decoder.reads_structure)


def reads_from_end(encoder: Encoder) -> bool:
    """Whether an encoder begins at the end of a document; most do not."""
    return isinstance(encoder, DirectedEncoder) and encoder.direction == "backward"


def reads_windows(decoder: Decoder) -> bool:
    """Whether a decoder reads windows; most read words."""
    return isinstance(decoder, WindowDecoder) and decoder.reads_windows


def planted_ranker(decoder: Decoder) -> nn.Module | None:
    """The ranker of a decoder, if one is planted."""
    return decoder.planted_ranker() if isinstance(decoder, RankedDecoder) else None


def reads_titles(decoder: Decoder) -> bool:
    """Whether a decoder knows labels by their titles alone."""
    return isinstance(decoder, TitleDecoder) and decoder.reads_titles


def gives(decoder: Decoder) -> frozenset[str]:
    """The side results of a decoder."""
    return decoder.gives if isinstance(decoder, ExtraDecoder) else frozenset()


class ArrayForm(NamedTuple):
    """What a part's form of plain arrays must know beside its weights: its name as `form`, other facts, and arrays."""

    facts: Mapping[str, Any]
    constants: Mapping[str, NDArray[Any]] = MappingProxyType({})


@runtime_checkable
class ArrayPart(Protocol):
    """An encoder or a decoder that has a form of plain arrays, for coders that only read (`plant.nn.reading`)."""

    def array_form(self) -> ArrayForm | None:
        """The form, for the weights as they are now; None where it has none."""
        ...


@runtime_checkable
class Loss(Protocol):
    """Turns logits and targets into one number."""

    def __call__(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]: ...


@runtime_checkable
class ExtraLoss(Loss, Protocol):
    """A loss that asks the decoder for side results by these names."""

    asks: frozenset[str]


@runtime_checkable
class RepeatedLoss(Loss, Protocol):
    """A loss that compares so many readings of the same documents, each with a dropout of its own."""

    passes: int


def passes(loss: Loss) -> int:
    """How often a loss wants documents read in training; most once."""
    return loss.passes if isinstance(loss, RepeatedLoss) else 1


def asks(loss: Loss) -> frozenset[str]:
    """The side results that a loss needs of the decoder."""
    return loss.asks if isinstance(loss, ExtraLoss) else frozenset()


@runtime_checkable
class TokenLists(Protocol):
    """Token t is listed by `labels[starts[t]:starts[t + 1]]`, rising, with these scores."""

    @property
    def starts(self) -> NDArray[np.int64]: ...
    @property
    def labels(self) -> NDArray[np.int32]: ...
    @property
    def scores(self) -> NDArray[np.float32]: ...


@runtime_checkable
class StaticRelevance(Protocol):
    """What static planting needs of `plant.relevance.relevance.Relevance`."""

    def first(self, n: int) -> "StaticRelevance": ...

    def by_token(self) -> TokenLists: ...
