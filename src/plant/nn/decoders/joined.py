"""Interaction matching joined with a base decoder, trained together."""

from dataclasses import replace
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.errors import RecipeError
from plant.nn.decoders.interaction import Interaction
from plant.nn.parts.protocols import AttentionDecoder, Decoder, gives, planted_ranker, reads_windows
from plant.tensors import Decoded, Encoded
from plant.text.vocab import UNKNOWN
from plant.values import small

Join = Literal["max", "sum"]


class Joined(nn.Module):
    """The larger of the two logits (as published), or the base's logit and the evidence of the match added up.

    Labels and words that were added after training are unknown to the base: it reads unknown words, and for such a
    label it has nothing to say: minus infinity before a maximum, the label's prior in a sum.
    """

    inner = MappingProxyType({"base": "label-attention", "interaction": "interaction"})
    evident = True
    tiny = small(join="sum", interaction={"size": 4})

    def __init__(
        self, base: Decoder, interaction: Decoder, *, n_labels: int, vocab_size: int, join: Join = "max"
    ) -> None:
        super().__init__()
        if not isinstance(interaction, Interaction):
            raise RecipeError("decoder.interaction joins interaction matching only: leave its name away")
        self.base, self.interaction = base, interaction
        self.n_labels, self.n_words, self.join = n_labels, vocab_size, join

    @property
    def reads_windows(self) -> bool:
        """Whether the base reads the encoder's windows, not its words."""
        return reads_windows(self.base)

    @property
    def gives(self) -> frozenset[str]:
        """The side results of the base."""
        return gives(self.base)

    def planted_ranker(self) -> nn.Module | None:
        """The ranker of a planted base."""
        return planted_ranker(self.base)

    def forward(self, encoded: Encoded) -> Decoded:
        decoded = self.base(self._known(encoded))
        logits, evidence = self._wide(decoded.logits), self.interaction.evidence(encoded)
        joined = torch.maximum(logits, self.interaction.prior + evidence) if self.join == "max" else logits + evidence
        return replace(decoded, logits=joined)

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """The matched words where a match decides, else where the base looked."""
        matched = self.interaction.attend(encoded, labels)
        if not isinstance(self.base, AttentionDecoder):
            return matched
        known = self._known(encoded)
        base = self._wide(self.base(known).logits)
        decides = matched.any(-1) & ((self.interaction(encoded).logits >= base)[:, labels] | (self.join == "sum"))
        trained = labels.clamp(max=self.n_labels - 1)
        looked = torch.where((labels < self.n_labels)[None, :, None], self.base.attend(known, trained), 0.0)
        return torch.where(decides.unsqueeze(-1), matched, looked)

    def _known(self, encoded: Encoded) -> Encoded:
        return replace(encoded, tokens=torch.where(encoded.tokens < self.n_words, encoded.tokens, UNKNOWN))

    def _wide(self, logits: Float[Tensor, "batch label"]) -> Float[Tensor, "batch all_labels"]:
        further = self.interaction.prior[self.n_labels :].expand(len(logits), -1)
        return torch.cat([logits, further if self.join == "sum" else torch.full_like(further, -torch.inf)], dim=1)
