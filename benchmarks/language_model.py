"""Speed of the AWD-LSTM (400 / 3 x 1152, segments of 72) against `nn.LSTM` in a weight-dropout wrapper, in one run.

    python benchmarks/language_model.py [--json] [--repeats 3]

Training is forward and backward through the whole network with all dropouts: documents are read in segments that carry
their state on. The wrapper draws its masks anew for each segment; we draw them once for a document, which matters most
with one document at a time. Inference compares weights of eight bits with those of 32. One thread, CPU time, variants
interleaved, medians.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plant.nn.language.awd_lstm import AWDLSTM, Carry, Dropouts
from plant.nn.language.quantized import Int8AWDLSTM

VOCAB, EMBEDDING, HIDDEN, LAYERS, SEGMENT = 10_000, 400, 1152, 3, 72
SEGMENTS = {1: 6, 16: 2, 64: 1}  # of a document, by batch size: a run takes seconds with each
DROPOUTS = Dropouts()


class WrappedLSTM(nn.Module):
    """The usual way: an `nn.LSTM` per layer, whose recurrent weights are replaced by dropped ones before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, EMBEDDING)
        sizes = [EMBEDDING, *[HIDDEN] * (LAYERS - 1), EMBEDDING]
        self.layers = nn.ModuleList(nn.LSTM(a, b, batch_first=True) for a, b in pairwise(sizes))
        self.raw = nn.ParameterList(nn.Parameter(layer.weight_hh_l0.detach().clone()) for layer in self.layers)

    def forward(self, tokens: Tensor, carry: Carry | None) -> tuple[Tensor, Carry]:
        mask = torch.empty(VOCAB, 1).bernoulli_(1 - DROPOUTS.embedding) / (1 - DROPOUTS.embedding)
        states = same_for_all_positions(F.embedding(tokens, self.words.weight * mask), DROPOUTS.input)
        after = []
        for number, (layer, raw) in enumerate(zip(self.layers, self.raw, strict=True)):
            layer._parameters.pop("weight_hh_l0", None)
            layer.weight_hh_l0 = F.dropout(raw, DROPOUTS.weight, training=True)
            layer._flat_weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0]
            states, last = layer(states, carry[number] if carry else None)
            after.append((last[0].detach(), last[1].detach()))
            if number < LAYERS - 1:
                states = same_for_all_positions(states, DROPOUTS.hidden)
        return states, tuple(after)


def same_for_all_positions(states: Tensor, share: float) -> Tensor:
    """Features dropped in the whole segment."""
    return states * (torch.empty_like(states[:, :1]).bernoulli_(1 - share) / (1 - share))


def train_wrapped(network: WrappedLSTM, segments: Sequence[Tensor]) -> None:
    network.zero_grad(set_to_none=True)
    loss, carry = torch.zeros(()), None
    for tokens in segments:
        states, carry = network(tokens, carry)
        loss = loss + states.square().mean()
    loss.backward()


def train_ours(network: AWDLSTM, segments: Sequence[Tensor]) -> None:
    network.zero_grad(set_to_none=True)
    loss, carry, draw = torch.zeros(()), None, network.draw()
    for tokens in segments:
        states, after = network(tokens, carry, draw)
        carry = tuple((hidden.detach(), cell.detach()) for hidden, cell in after)
        loss = loss + states.square().mean()
    loss.backward()


@torch.no_grad()
def infer(network: nn.Module, segments: Sequence[Tensor]) -> None:
    carry = None
    for tokens in segments:
        _, carry = network(tokens, carry)


def medians(variants: Sequence[Callable[[], None]], repeats: int) -> list[float]:
    """CPU seconds of each variant, measured in turns after one turn that does not count."""
    turns: list[list[float]] = []
    for _ in range(repeats + 1):
        turns.append([seconds(variant) for variant in variants])
    return [statistics.median(column) for column in zip(*turns[1:], strict=True)]


def seconds(run: Callable[[], None]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def segments_of(batch: int) -> list[Tensor]:
    return [torch.randint(0, VOCAB, (batch, SEGMENT)) for _ in range(SEGMENTS[batch])]


def compared(
    reference: Callable[..., None], ours: Callable[..., None], *, batch: int, repeats: int
) -> dict[str, float]:
    segments = segments_of(batch)
    per_token = 1e6 / (batch * SEGMENT * len(segments))
    theirs, mine = medians([partial(reference, segments=segments), partial(ours, segments=segments)], repeats)
    return {"ratio": theirs / mine, "reference_us_per_token": theirs * per_token, "ours_us_per_token": mine * per_token}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = measured(arguments.repeats)
    print(json.dumps(found) if arguments.json else "\n".join(map(line, found, found.values())))


def measured(repeats: int) -> dict[str, dict[str, float]]:
    """Every comparison; the headline of `inference_int8` is one document at a time."""
    wrapped = partial(train_wrapped, WrappedLSTM())
    network = AWDLSTM(VOCAB, embedding=EMBEDDING, hidden=HIDDEN, layers=LAYERS, dropouts=DROPOUTS)
    ours = partial(train_ours, network.train())
    found = {f"train_batch{b}": compared(wrapped, ours, batch=b, repeats=repeats) for b in SEGMENTS}
    exact, rounded = partial(infer, network.eval()), partial(infer, Int8AWDLSTM(network))
    by_batch = {b: compared(exact, rounded, batch=b, repeats=repeats) for b in SEGMENTS}
    return found | {"inference_int8": by_batch[1] | {f"ratio_batch{b}": by_batch[b]["ratio"] for b in (16, 64)}}


def line(name: str, figures: dict[str, float]) -> str:
    return f"{name:16} " + "  ".join(f"{key} {value:,.2f}" for key, value in figures.items())


if __name__ == "__main__":
    main()
