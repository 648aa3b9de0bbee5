"""Descriptions of labels as an encoder reads them: at every step, now and then in training, once for prediction."""

from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.errors import InputError
from plant.nn.language.windows import WindowPlan, lay_out
from plant.nn.parts.protocols import SubwordEncoder
from plant.tensors import Batch, Subwords

AT_ONCE = 256  # descriptions that go through the encoder together


@dataclass(frozen=True)
class Described:
    """The states of some labels' descriptions, all positions in one row, and the label that each belongs to."""

    states: Float[Tensor, "position size"]
    owners: Int[Tensor, "position"]
    n_labels: int


class Descriptions(nn.Module):
    """The titles of all labels and what the encoder makes of them.

    With `refresh` 1 they are read anew, with a gradient, whenever a part is asked for in training. Otherwise they are
    read every `refresh` steps without one, and kept with the weights, so that a killed run goes on with the same. With
    `width` every title has just so many positions, special and padding ones included.
    """

    tokens: Tensor
    mask: Tensor
    numbers: Tensor
    words: Tensor
    cache: Tensor
    age: Tensor
    fresh: Tensor | None

    def __init__(self, encoder: nn.Module, titles: Batch, *, width: int = 0, refresh: int = 1) -> None:
        super().__init__()
        self._encoder = (encoder,)  # in a tuple: its weights belong to the classifier
        self.width, self.refresh = width, refresh
        subwords = titles.subwords if isinstance(encoder, SubwordEncoder) else None
        subwords = subwords or Subwords(titles.tokens, titles.mask.long() - 1)
        lengths = (subwords.words >= 0).sum(1)
        if width and not bool((lengths > 0).all()):
            raise InputError("a label has neither a description nor a code that the tokenizer can read")
        self.lost = int((lengths - (width - 2)).clamp(min=0).sum()) if width else 0
        self.starts = (0, *accumulate([width] * len(lengths) if width else lengths.tolist()))
        for name, tensor in (("tokens", titles.tokens), ("mask", titles.mask)):
            self.register_buffer(name, tensor, persistent=False)
        for name, tensor in (("numbers", subwords.numbers), ("words", subwords.words)):
            self.register_buffer(name, tensor, persistent=False)
        kept = torch.zeros(self.starts[-1] if refresh > 1 else 0, encoder.size)  # type: ignore[call-overload]
        self.register_buffer("cache", kept)
        self.register_buffer("age", torch.zeros((), dtype=torch.long))
        self.register_buffer("fresh", None, persistent=False)
        self.register_load_state_dict_post_hook(lambda module, _: module.forget())  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def prepare(self) -> None:
        """Once for each forward: read all descriptions where that is due."""
        if not self.training:
            self.fresh = self._all() if self.fresh is None else self.fresh
        elif self.refresh > 1:
            self.cache = self._all() if int(self.age) % self.refresh == 0 else self.cache
            self.age = self.age + 1

    def part(self, labels: range) -> Described:
        """Some labels that follow one another; call `prepare` before."""
        owners = [label - labels.start for label in labels for _ in range(self.starts[label], self.starts[label + 1])]
        place = slice(self.starts[labels.start], self.starts[labels.stop])
        if self.training and self.refresh == 1:
            states = self._read(labels)
        else:
            kept = self.cache if self.training else self.fresh
            assert kept is not None
            states = kept[place]
        return Described(states, torch.tensor(owners, dtype=torch.long, device=states.device), len(labels))

    def forget(self) -> None:
        """What was read for prediction is read again: weights have changed."""
        self.fresh = None

    def train(self, mode: bool = True) -> "Descriptions":
        """Training changes the weights under what was read."""
        if mode or self.training:
            self.forget()
        return super().train(mode)

    @torch.no_grad()
    def _all(self) -> Float[Tensor, "position size"]:
        encoder, training = self._encoder[0], self._encoder[0].training
        encoder.train(False)
        try:
            blocks = [range(first, min(first + AT_ONCE, len(self))) for first in range(0, len(self), AT_ONCE)]
            return torch.cat([self._read(block) for block in blocks]) if blocks else self.cache[:0]
        finally:
            encoder.train(training)

    def _read(self, labels: range) -> Float[Tensor, "position size"]:
        rows = slice(labels.start, labels.stop)
        encoder = self._encoder[0]
        if not isinstance(encoder, SubwordEncoder):
            mask = self.mask[rows]
            width = slice(max(1, int(mask.sum(1).max())))  # of these, which may be shorter than others
            encoded = encoder(Batch(self.tokens[rows, width], mask[:, width]))
            return encoded.states[encoded.mask]
        subwords = Subwords(self.numbers[rows], self.words[rows])
        lengths, room = (subwords.words >= 0).sum(1).tolist(), self.width - 2
        if self.width:
            layout = lay_out(lengths, WindowPlan(room, most=1))
            return encoder.read_windows(subwords, layout, width=room).states.flatten(0, 1)
        windows = encoder.read_windows(subwords, lay_out(lengths, WindowPlan(encoder.plan.length)))
        return windows.states[windows.words >= 0]
