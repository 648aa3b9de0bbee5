"""The tensors that walk through a model: batch -> encoded -> decoded."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Documents padded to one length; `mask` is true at real tokens. `targets` has a column per label."""

    tokens: Int[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]
    targets: Float[Tensor, "batch label"] | None = None

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        targets = None if self.targets is None else self.targets.to(device)
        return replace(self, tokens=self.tokens.to(device), mask=self.mask.to(device), targets=targets)


@dataclass(frozen=True)
class Encoded:
    """Token features of a batch; what stands where `mask` is false means nothing and must change nothing."""

    states: Float[Tensor, "batch time size"]
    tokens: Int[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]


@dataclass(frozen=True)
class Decoded:
    """One logit per document and label; `extras` are side results that a loss may ask for by name."""

    logits: Float[Tensor, "batch label"]
    extras: Mapping[str, Tensor] = field(default_factory=lambda: MappingProxyType({}))
