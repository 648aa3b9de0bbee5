"""BERT with a linear layer: the pooled first position of every window, and the largest or mean logit over windows."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.nn.decoders.pooled import as_evidence
from plant.nn.dropout import ByteDropout
from plant.nn.language.windows import Joining, at_words, decisive, joined, windows_of
from plant.tensors import Decoded, Encoded, Windows
from plant.values import Dropout


@runtime_checkable
class WithPooler(Protocol):
    """A transformer whose checkpoint may bring weights of a pooling layer."""

    @property
    def pooler(self) -> Mapping[str, Tensor]: ...


class WindowPool(nn.Module):
    """Devlin et al. 2019: tanh of a linear layer over the first position, dropout, one weight vector per label.

    The pooling layer starts from the checkpoint's where it has one. With an encoder that reads documents at once, a
    document is one window, and its first word the first position.
    """

    reads_windows = evident = True
    starts_from = frozenset({"transformer"})

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        transformer: WithPooler | None = None,
        windows: Joining = "max",
        dropout: Dropout = 0.1,
    ) -> None:
        super().__init__()
        self.pooler = nn.Linear(input_size, input_size)
        if transformer is not None and transformer.pooler:
            self.pooler.load_state_dict({name.removeprefix("dense."): t for name, t in transformer.pooler.items()})
        self.dropout = ByteDropout(dropout)
        self.output = nn.Linear(input_size, n_labels)
        nn.init.normal_(self.output.weight, std=0.02)
        nn.init.zeros_(self.output.bias)
        self.windows = windows

    def forward(self, encoded: Encoded) -> Decoded:
        windows = windows_of(encoded)
        logits = self._window_logits(windows)
        return Decoded(joined(logits, windows.counts, self.windows, without=self.output.bias))

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """What the head would say of each position of the windows that decide: the first one gathered it from there."""
        windows = windows_of(encoded)
        deciding = decisive(self._window_logits(windows)[:, labels], windows.counts, self.windows)
        states = torch.where(windows.mask.unsqueeze(-1), windows.states, 0.0)
        lens = self.pooler(states).tanh() @ self.output.weight[labels].T
        heard = torch.where(deciding.unsqueeze(2), lens.transpose(1, 2).clamp(min=0), 0.0)
        return as_evidence(at_words(heard, windows, n_words=encoded.mask.shape[1]), encoded.mask)

    def _window_logits(self, windows: Windows) -> Float[Tensor, "window label"]:
        real = windows.mask[:, :1]
        first = torch.where(real, windows.states[:, 0].to(self.pooler.weight.dtype), 0.0)
        pooled = torch.where(real, self.pooler(first).tanh(), 0.0)
        return self.output(self.dropout(pooled))
