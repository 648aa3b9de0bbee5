"""What an encoder, a decoder and a loss are; anything of this shape goes with anything else of this shape."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from plant.tensors import Batch, Decoded, Encoded


@runtime_checkable
class Encoder(Protocol):
    """Turns tokens into features of width `size`."""

    size: int

    def __call__(self, batch: Batch) -> Encoded: ...


@runtime_checkable
class Decoder(Protocol):
    """Turns features into one logit per label."""

    def __call__(self, encoded: Encoded) -> Decoded: ...


@runtime_checkable
class AttentionDecoder(Decoder, Protocol):
    """A decoder that can say, afterwards, where it looked for each label."""

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]: ...


@runtime_checkable
class Loss(Protocol):
    """Turns logits and targets into one number."""

    def __call__(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]: ...
