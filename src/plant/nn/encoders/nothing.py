"""The encoder of systems that look at words alone."""

import torch
from torch import nn

from plant.nn.parts.protocols import ArrayForm
from plant.tensors import Batch, Encoded


class Nothing(nn.Module):
    """Passes on the words; its states have no features, so that decoders that need some refuse it."""

    size = 0

    def forward(self, batch: Batch) -> Encoded:
        states = torch.empty(*batch.tokens.shape, 0, device=batch.tokens.device)
        return Encoded(states, batch.tokens, batch.mask)

    def array_form(self) -> ArrayForm:
        """Nothing there either."""
        return ArrayForm({"form": "none"})
