"""Transformers of the BERT family as encoders: windows of sub-words over the whole document, one state per word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.errors import InputError, RecipeError
from plant.nn.language.transformer import Transformer, check_window, network_of, new_config
from plant.nn.language.windows import Layout, WindowPlan, innermost, lay_out
from plant.tensors import Batch, Encoded, Subwords, Windows
from plant.text.subwords import SubwordTokenizer
from plant.values import Count, Natural, small

WINDOWS_AT_ONCE = 128  # that go through the network together, whatever the batch


@dataclass(frozen=True)
class Special:
    """The sub-words that open, close and fill a window, and the one that hides others."""

    first: int
    last: int
    padding: int
    mask: int


SPECIAL = Special(first=2, last=3, padding=0, mask=4)  # of a new tokenizer


class TransformerEncoder(nn.Module):
    """Reads the text's sub-words in windows that overlap; a sub-word's state is that of its innermost window.

    A word's state is the mean of its sub-words' states, or that of the first. `folder` is a Hugging Face checkpoint on
    disk; without one the network is new, of `layers` layers of width `hidden`, with a tokenizer of `pieces` sub-words
    that the stage before learned from the fitted text. `window` counts sub-words of text: two special ones come on top.
    With `max_windows` words beyond them are not read, as the fitted coder's facts say. `full_windows` pads every window
    to its full length, for decoders whose weights are those of positions. `recompute` trades time for memory.
    """

    starts_from = frozenset({"transformer"})
    tiny = small(pieces=100, hidden=8, layers=2, heads=2, window=4, overlap=1)

    def __init__(
        self,
        *,
        transformer: Transformer | None = None,
        folder: str = "",
        pieces: Count = 8000,
        hidden: Count = 128,
        layers: Count = 2,
        heads: Count = 4,
        window: Count = 200,
        overlap: Natural = 50,
        max_windows: Natural = 0,
        pool: Literal["mean", "first"] = "mean",
        full_windows: bool = False,
        frozen: bool = False,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        if transformer is None and folder:
            raise RecipeError("encoder.folder is read by the stages before: build this encoder through a coder")
        if transformer is None:
            self.network: Any = network_of(new_config(pieces, hidden=hidden, layers=layers, heads=heads), {})
        else:
            self.network = network_of(transformer.config, transformer.weights)
        self.tokenizer = None if transformer is None else transformer.tokenizer
        self.special = SPECIAL if self.tokenizer is None else special_of(self.tokenizer)
        self.blank = self.special.mask
        self.plan = WindowPlan(window, overlap, max_windows)
        self.pool, self.full_windows, self.frozen = pool, full_windows, frozen
        self.size: int = self.network.config.hidden_size
        check_window(window, self.network.config.to_dict(), option="encoder.window")
        self.network.requires_grad_(not frozen)
        if recompute:
            _recompute(self.network)

    def forward(self, batch: Batch) -> Encoded:
        subwords = batch.subwords
        if subwords is None:
            raise InputError("a transformer reads sub-words, and this batch has none: cut its documents first")
        lengths = (subwords.words >= 0).sum(1).tolist()
        windows = self.read_windows(subwords, lay_out(lengths, self.plan), width=self.plan.length * self.full_windows)
        chosen = _chosen(lengths, self.plan, batch.tokens.device)
        states = windows.states[chosen.windows, chosen.positions]
        words = subwords.words[chosen.rows, chosen.parts]
        last = words.new_full((len(lengths),), -1).scatter_reduce(0, chosen.rows, words, "amax")
        read = torch.arange(batch.mask.shape[1], device=words.device) <= last.unsqueeze(1)
        pooled = self._pooled(states, chosen.rows * batch.tokens.shape[1] + words, batch.tokens.numel())
        return Encoded(pooled.unflatten(0, batch.tokens.shape), batch.tokens, batch.mask & read, windows, subwords)

    def read_windows(self, subwords: Subwords, layout: Layout, *, width: int = 0) -> Windows:
        """The states of the windows between two special positions, padded to the longest or to `width` sub-words."""
        inputs, mask, words = self._inputs(subwords, layout, width or max(layout.lengths.tolist(), default=0))
        parts = [
            self.network(input_ids=some, attention_mask=real.long()).last_hidden_state
            for some, real in zip(inputs.split(WINDOWS_AT_ONCE), mask.split(WINDOWS_AT_ONCE), strict=True)
            if len(some)
        ]
        nothing = next(self.network.parameters()).new_zeros(0, inputs.shape[1], self.size)
        return Windows(torch.cat([nothing, *parts]), mask, words, layout.counts)

    def layer_modules(self) -> Sequence[nn.Module]:
        """Embeddings, then the layers from the first to the last; the whole network where it does not part them."""
        modules: dict[str, nn.Module] = dict(self.network.named_modules())
        if not {"embeddings", "encoder.layer"} <= modules.keys():
            return [self.network]
        return [modules["embeddings"], *modules["encoder.layer"].children()]

    def train(self, mode: bool = True) -> "TransformerEncoder":
        """A frozen network stays as it is, without dropout."""
        super().train(mode)
        self.network.train(mode and not self.frozen)
        return self

    def _inputs(self, subwords: Subwords, layout: Layout, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """What the network reads, where that is real, and the word of each position."""
        device = subwords.numbers.device
        lengths = layout.lengths.to(device).unsqueeze(1)
        places = torch.arange(width, device=device)
        rows, inside = layout.documents.to(device).unsqueeze(1), places < lengths
        index = torch.where(inside, layout.starts.to(device).unsqueeze(1) + places, 0)
        # beyond the end stand closing sub-words: only one of them is read, and the padding's vector may be anything
        filler = self.special.padding if self.full_windows else self.special.last
        numbers = torch.where(inside, subwords.numbers[rows, index], filler)
        words = torch.where(inside, subwords.words[rows, index], -1)
        first = numbers.new_full((len(numbers), 1), self.special.first)
        inputs = torch.cat([first, numbers, torch.full_like(first, filler)], dim=1)
        inputs = inputs.scatter(1, lengths + 1, self.special.last)
        mask = torch.arange(width + 2, device=device) < lengths + 2
        return inputs, mask, torch.nn.functional.pad(words, (1, 1), value=-1)

    def _pooled(
        self, states: Float[Tensor, "part size"], index: Int[Tensor, "part"], n_words: int
    ) -> Float[Tensor, "word size"]:
        """One state per word from those of its sub-words; zero where it has none."""
        empty = states.new_zeros(n_words, self.size)
        if self.pool == "first":
            begins = torch.cat([torch.ones_like(index[:1], dtype=torch.bool), index[1:] != index[:-1]])
            return empty.index_copy(0, index[begins], states[begins])
        counts = torch.bincount(index, minlength=n_words).clamp(min=1).unsqueeze(1)
        return empty.index_add(0, index, states) / counts


@dataclass(frozen=True)
class ChosenWindows:
    """For every sub-word that is read: its document, its place there, and the window position with its state."""

    rows: Int[Tensor, "part"]
    parts: Int[Tensor, "part"]
    windows: Int[Tensor, "part"]
    positions: Int[Tensor, "part"]


def _recompute(network: Any) -> None:
    """Have a network forget its states and compute them again in the backward pass."""
    options = {"use_reentrant": False}
    if hasattr(network, "activation_checkpointing_enable"):  # its name since transformers 5.23
        network.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
    else:
        network.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)


def _chosen(lengths: Sequence[int], plan: WindowPlan, device: torch.device) -> ChosenWindows:
    nothing = torch.empty(0, dtype=torch.long)
    rows, parts, windows, positions, before = [nothing], [nothing], [nothing], [nothing], 0
    for row, length in enumerate(lengths):
        best = innermost(length, plan)
        places = torch.arange(len(best))
        rows.append(torch.full_like(places, row))
        parts.append(places)
        windows.append(before + best)
        positions.append(1 + places - best * plan.step)
        before += plan.count(length)
    return ChosenWindows(*(torch.cat(each).to(device) for each in (rows, parts, windows, positions)))


def special_of(tokenizer: SubwordTokenizer) -> Special:
    """The special sub-words of a tokenizer."""
    mask = tokenizer.last if tokenizer.mask is None else tokenizer.mask
    return Special(tokenizer.first, tokenizer.last, tokenizer.padding, mask)
