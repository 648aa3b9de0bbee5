"""Training steps of encoders' parts, on one thread: dropout by bytes, states of looked-at positions only, the GRU.

`byte_dropout`: `nn.Dropout` against ours, forward and backward, on the states of a batch (16 notes of 730 words, 400
numbers a word). `convolution_at`: the convolution of `plant-cnn` over all positions against the same at a random 59 %
of them, the share that holds a listed word on CANTEMIST, forward and backward. `gru`: a layer of `nn.GRU` against ours
on 8 notes of 200 to 600 words. CPU time, medians of turns.

    python benchmarks/encoder.py [--json] [--rounds 7]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from plant.nn.dropout import ByteDropout
from plant.nn.gated import read_documents
from plant.nn.layers import Convolution
from plant.tensors import chosen_by

NOTES, LENGTH, SIZE, FILTERS, KERNEL, SHARE, DROPPED = 16, 730, 200, 200, 5, 0.59, 0.3
RECURRENT, READ = 100, (200, 250, 300, 350, 400, 450, 500, 600)  # words of vectors of 100


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def ratio(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The first way against the second, and the milliseconds of both; the first turn compiles and does not count."""
    turns = [{name: seconds(way) for name, way in ways.items()} for _ in range(rounds + 1)][1:]
    plain, ours = (1e3 * statistics.median(turn[name] for turn in turns) for name in ways)
    return {"ratio": plain / ours, "reference_milliseconds": plain, "milliseconds": ours}


def dropouts(rounds: int) -> dict[str, float]:
    states = torch.randn(NOTES, LENGTH, 2 * SIZE, requires_grad=True)
    slopes = torch.randn_like(states)

    def step(layer: nn.Module) -> None:
        layer(states).backward(slopes)
        states.grad = None

    plain, ours = nn.Dropout(DROPPED), ByteDropout(DROPPED)
    return ratio({"nn.Dropout": lambda: step(plain), "bytes": lambda: step(ours)}, rounds)


def convolutions(rounds: int) -> dict[str, float]:
    layer, states = Convolution(SIZE, FILTERS, kernel=KERNEL), torch.randn(NOTES, LENGTH, SIZE, requires_grad=True)
    mask = torch.ones(NOTES, LENGTH, dtype=torch.bool)
    chosen = chosen_by(torch.rand(NOTES, LENGTH) < SHARE)

    def step(way: Callable[[], torch.Tensor]) -> None:
        found = way()
        found.backward(torch.ones_like(found))
        layer.zero_grad()
        states.grad = None

    ways = {"all": lambda: layer(states, mask), "chosen": lambda: layer.at(states, mask, chosen)}
    return ratio({name: lambda way=way: step(way) for name, way in ways.items()}, rounds)


def recurrence(size: int, rounds: int) -> dict[str, float]:
    layer, lengths = nn.GRU(RECURRENT, size, batch_first=True), torch.tensor(READ)
    states = torch.randn(len(READ), max(READ), RECURRENT, requires_grad=True)

    def step(way: Callable[[], torch.Tensor]) -> None:
        found = way()
        found.backward(torch.ones_like(found))
        layer.zero_grad()
        states.grad = None

    ways = {"nn.GRU": lambda: layer(states)[0], "ours": lambda: read_documents(layer, states, lengths)}
    return ratio({name: lambda way=way: step(way) for name, way in ways.items()}, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = {"byte_dropout": dropouts(arguments.rounds), "convolution_at": convolutions(arguments.rounds)}
    found |= {f"gru of {size}": recurrence(size, arguments.rounds) for size in (32, 50, 100, 200)}
    rows = [f"{name}, {key:24} {value:9.2f}" for name, values in found.items() for key, value in values.items()]
    print(json.dumps(found) if arguments.json else "\n".join(rows))


if __name__ == "__main__":
    main()
