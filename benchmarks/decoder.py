"""One training step of the planted decoder, on one thread; but for sparse planting, on one document.

`fused_step`: the equations as printed against ours; `planted_against_learned`: learned attention alone against PLANT,
both ours; `focused_against_learned`: the same for PLANT without learned attention (k = 10), the form of the recipes for
two cores; `memory`: what a step needs beyond parameters, gradients and features, as printed against ours;
`focused_memory_against_learned`: the same need, PLANT without learned attention against learned attention alone;
`sparse_step_*`: PLANT without learned attention (k = 10) against the same with `listed = 100`, on batches of notes.

    python benchmarks/decoder.py [--json] [--labels 8929] [--length 1500] [--size 400] [--rounds 5] [--ranker bilinear]
"""

import argparse
import ctypes
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.planting.ranker import RANKERS
from plant.relevance.relevance import Relevance
from plant.tensors import Encoded

N_TOKENS, DISTINCT, K, FEW, MORE_LABELS = 60_000, 450, 56, 10, (40_000, 170_000)
LISTED = 100


@dataclass(frozen=True)
class Made:
    """A made-up document of 450 words, each about as often, its targets, and decoders with random weights."""

    encoded: Encoded
    targets: Tensor
    relevance: Relevance
    planted: PlantedDecoder
    focused: PlantedDecoder
    learned: LabelAttention

    @property
    def trained(self) -> tuple[Tensor, ...]:
        """All that gets gradients."""
        decoders = (self.planted, self.focused, self.learned)
        return (self.encoded.states, *(weight for decoder in decoders for weight in decoder.parameters()))


def make(*, n_labels: int, length: int, size: int, ranker: str, keep: int) -> Made:
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    relevance = made_up_relevance(generator, n_labels, keep)
    words = np.unique(zipf(generator, 3 * DISTINCT))[:DISTINCT]
    tokens = torch.from_numpy(generator.choice(words, length)).unsqueeze(0)
    states = torch.randn(1, length, size).mul_(0.3).requires_grad_()
    trained = RANKERS.build(ranker, {}, n_tokens=N_TOKENS, n_labels=n_labels)
    return Made(
        encoded=Encoded(states, tokens, torch.ones(1, length, dtype=torch.bool)),
        targets=(torch.rand(1, n_labels) < 0.002).float(),
        relevance=relevance,
        planted=PlantedDecoder(size, n_labels, relevance=relevance, ranker=trained, k=K),
        focused=PlantedDecoder(size, n_labels, relevance=relevance, ranker=trained, k=FEW, learned=False),
        learned=LabelAttention(size, n_labels),
    )


def made_up_relevance(generator: np.random.Generator, n_labels: int, keep: int) -> Relevance:
    """Lists of random words, half of them as frequent in lists as in text, half of them even."""
    tokens = np.concatenate(
        [zipf(generator, (n_labels, keep // 2)), generator.integers(2, N_TOKENS, (n_labels, keep - keep // 2))], axis=1
    )
    tokens.sort(axis=1)
    scores = generator.random(tokens.shape, dtype=np.float32)
    scores[:, 1:][tokens[:, 1:] == tokens[:, :-1]] = 0.0  # a list names a word once
    return Relevance(
        codes=(), tokens=tokens.astype(np.uint16), scores=scores, label_counts=np.empty(0, np.int64),
        token_counts=np.ones(N_TOKENS, np.int64), n_documents=1, form="mi",
    )  # fmt: skip


def zipf(generator: np.random.Generator, shape: int | tuple[int, ...], n_tokens: int = N_TOKENS) -> np.ndarray:
    weights = 1 / np.arange(2, n_tokens)
    return 2 + np.searchsorted(np.cumsum(weights) / weights.sum(), generator.random(shape)).clip(max=n_tokens - 3)


@dataclass(frozen=True)
class Shape:
    """A batch of notes, and lists whose first 100 words meet a note about as often as those of real notes do.

    With mutual information of made-up notes (of CANTEMIST's where it is named) as lists, a note has 2,300 listed pairs
    on CANTEMIST, 10,200 at 8,929 labels and 124,000 at 170,000: most listed words are rare, a `common` share is not.
    """

    n_labels: int
    notes: int
    length: int
    distinct: int
    n_tokens: int
    keep: int
    common: float


SHAPES = {
    "cantemist": Shape(479, notes=16, length=730, distinct=317, n_tokens=10_000, keep=1_000, common=0.04),
    "8929": Shape(8_929, notes=4, length=1_500, distinct=DISTINCT, n_tokens=N_TOKENS, keep=1_000, common=0.01),
    "170000": Shape(170_000, notes=1, length=1_500, distinct=DISTINCT, n_tokens=N_TOKENS, keep=LISTED, common=0.0),
}


@dataclass(frozen=True)
class Batch:
    """Made-up notes and their targets, and decoders without learned attention that differ in `listed` alone."""

    encoded: Encoded
    targets: Tensor
    focused: PlantedDecoder
    sparse: PlantedDecoder

    @property
    def trained(self) -> tuple[Tensor, ...]:
        """All that gets gradients."""
        return (self.encoded.states, *self.focused.parameters(), *self.sparse.parameters())


def make_batch(shape: Shape, *, size: int, ranker: str) -> Batch:
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    relevance = lists_of_own_words(generator, shape)
    tokens = torch.from_numpy(np.stack([made_up_note(generator, shape) for _ in range(shape.notes)]))
    trained = RANKERS.build(ranker, {}, n_tokens=shape.n_tokens, n_labels=shape.n_labels)
    given = {"relevance": relevance, "ranker": trained, "k": FEW, "learned": False}
    return Batch(
        encoded=Encoded(
            torch.randn(*tokens.shape, size).mul_(0.3).requires_grad_(), tokens, torch.ones_like(tokens).bool()
        ),
        targets=(torch.rand(shape.notes, shape.n_labels) < 0.002).float(),
        focused=PlantedDecoder(size, shape.n_labels, **given),
        sparse=PlantedDecoder(size, shape.n_labels, **given, listed=LISTED),
    )


def made_up_note(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    words = np.unique(zipf(generator, 3 * shape.distinct, shape.n_tokens))[: shape.distinct]
    return generator.choice(words, shape.length)


def lists_of_own_words(generator: np.random.Generator, shape: Shape) -> Relevance:
    """Lists, best first, of any words, some of them common; a word twice on a list is there once."""
    tokens = generator.integers(2, shape.n_tokens, (shape.n_labels, shape.keep))
    common = generator.random(tokens.shape, dtype=np.float32) < shape.common
    tokens[common] = zipf(generator, int(common.sum()), shape.n_tokens)
    scores = -np.sort(-generator.random(tokens.shape, dtype=np.float32), axis=1)
    order = np.argsort(tokens, axis=1, kind="stable")
    again = np.diff(np.take_along_axis(tokens, order, axis=1), axis=1, prepend=-1) == 0
    np.put_along_axis(scores, order, np.where(again, 0.0, np.take_along_axis(scores, order, axis=1)), axis=1)
    return Relevance(
        codes=(), tokens=tokens.astype(np.uint16), scores=scores, label_counts=np.empty(0, np.int64),
        token_counts=np.ones(shape.n_tokens, np.int64), n_documents=1, form="mi",
    )  # fmt: skip


def sparse_step(shape: Shape, *, size: int, ranker: str, rounds: int) -> dict[str, object]:
    """A step of both ways in turns, then their logits without gradients."""
    batch = make_batch(shape, size=size, ranker=ranker)
    decoders = {"focused": batch.focused, "sparse": batch.sparse}
    steps = in_turns({name: partial(learn, batch, decoder) for name, decoder in decoders.items()}, rounds)
    logits = in_turns({name: partial(predict, batch, decoder) for name, decoder in decoders.items()}, rounds)
    per_note = {"step": steps, "logits": logits}
    return {
        "ratio": steps["focused"] / steps["sparse"],
        "prediction_ratio": logits["focused"] / logits["sparse"],
        "milliseconds_a_note": {
            f"{what}, {name}": 1e3 * took / shape.notes
            for what, ways in per_note.items()
            for name, took in ways.items()
        },
    }


def in_turns(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Medians of each way; the first round compiles and does not count."""
    spent = [{name: way() for name, way in ways.items()} for _ in range(rounds + 1)]
    return {name: statistics.median(turn[name] for turn in spent[1:]) for name in ways}


def learn(batch: Batch, decoder: PlantedDecoder) -> float:
    return seconds(batch, lambda: decoder.loss(batch.encoded, batch.targets))


@torch.no_grad()
def predict(batch: Batch, decoder: PlantedDecoder) -> float:
    started = time.process_time()
    decoder(batch.encoded)
    return time.process_time() - started


def literal_step(made: Made, static: Tensor) -> Tensor:
    """The equations as printed, with arrays of time x label; the static weights, time x label, are given."""
    decoder, states, tokens = made.planted, made.encoded.states[0], made.encoded.tokens[0]
    scores = decoder.ranker.scores(tokens, torch.arange(static.shape[1])).T
    floor = scores.topk(min(K, len(tokens)), dim=0).values[-1]
    planted = scores.masked_fill(scores < floor, -torch.inf).softmax(0)
    learned = (states @ decoder.learned.queries.T).softmax(0)
    one, two, three = decoder.scales
    pooled = one * (learned.T @ states) + two * (static.T @ states) + three * (planted.T @ states)
    logits = (pooled * decoder.learned.weights).sum(-1) + decoder.learned.bias
    return F.binary_cross_entropy_with_logits(logits, made.targets[0])


def literal_learned_step(made: Made) -> Tensor:
    """Learned attention as printed."""
    states, decoder = made.encoded.states[0], made.learned
    learned = (states @ decoder.queries.T).softmax(0)
    logits = ((learned.T @ states) * decoder.weights).sum(-1) + decoder.bias
    return F.binary_cross_entropy_with_logits(logits, made.targets[0])


def dense_static(made: Made) -> Tensor:
    """The static weights of the document as one array, time x label, normalised over the document."""
    labels = torch.arange(made.targets.shape[1])
    rows = made.planted.attend_by_source(made.encoded, labels)["static"]
    return rows[0].T.contiguous()


def steps(made: Made, *, printed: bool = True) -> dict[str, Callable[[], Tensor]]:
    ours = {
        "PLANT fused": lambda: made.planted.loss(made.encoded, made.targets),
        "PLANT focused": lambda: made.focused.loss(made.encoded, made.targets),
        "PLANT, logits then any loss": lambda: through_logits(made),
        "learned fused": lambda: made.learned.loss(made.encoded, made.targets),
    }
    if not printed:
        return ours
    static = dense_static(made)
    theirs = {
        "PLANT as printed": lambda: literal_step(made, static),
        "learned as printed": lambda: literal_learned_step(made),
    }
    return theirs | ours


def through_logits(made: Made) -> Tensor:
    return F.binary_cross_entropy_with_logits(made.planted(made.encoded).logits, made.targets)


def seconds(made: Made | Batch, step: Callable[[], Tensor]) -> float:
    started = time.process_time()
    step().backward()
    spent = time.process_time() - started
    for tensor in made.trained:
        tensor.grad = None
    return spent


def medians(made: Made, *, rounds: int) -> dict[str, float]:
    """CPU seconds of each way, taken in turns; the first round compiles and does not count."""
    return in_turns({name: partial(seconds, made, step) for name, step in steps(made).items()}, rounds)


def extra_megabytes(way: str, n_labels: int, length: int, size: int) -> float:
    """The peak of a step above what stood before and the gradients it leaves, in a process of its own (Linux)."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_extra_megabytes, (way, n_labels, length, size))


def _extra_megabytes(way: str, n_labels: int, length: int, size: int) -> float:
    torch.set_num_threads(1)
    warm = make(n_labels=64, length=100, size=size, ranker="bilinear", keep=20)
    for step in steps(warm).values():
        seconds(warm, step)
    made = make(n_labels=n_labels, length=length, size=size, ranker="bilinear", keep=50)
    step = steps(made, printed="printed" in way)[way]
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what was freed before must not hide what is taken now
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status("VmRSS")
    step().backward()
    gradients = sum(tensor.grad.nbytes for tensor in made.trained if tensor.grad is not None)
    return (_status("VmHWM") - before) * 1.024e-3 - gradients * 1e-6


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(field)).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--labels", type=int, default=8_929)
    parser.add_argument("--length", type=int, default=1_500)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranker", choices=sorted(RANKERS.builders), default="bilinear")
    parser.add_argument("--only", choices=["sparse"], default="", help="sparse planting alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    shape, found = {"length": arguments.length, "size": arguments.size}, {}
    if not arguments.only:
        made = make(n_labels=arguments.labels, ranker=arguments.ranker, keep=1_000, **shape)
        found = results(medians(made, rounds=arguments.rounds), memory(arguments.labels, **shape))
        del made
    options = {"size": arguments.size, "ranker": arguments.ranker, "rounds": arguments.rounds}
    found |= {f"sparse_step_{name}": sparse_step(each, **options) for name, each in SHAPES.items()}
    print(json.dumps(found) if arguments.json else table(found))


def memory(n_labels: int, *, length: int, size: int) -> dict[str, float]:
    """Megabytes of a step beyond its gradients, each way, and ours for more labels."""
    ways = ("PLANT as printed", "PLANT fused", "PLANT focused", "learned fused")
    found = {way: extra_megabytes(way, n_labels, length, size) for way in ways}
    more = {f"{labels} labels": extra_megabytes(ways[1], labels, length, size) for labels in MORE_LABELS}
    return found | more


def results(spent: dict[str, float], megabytes: dict[str, float]) -> dict[str, dict[str, object]]:
    return {
        "fused_step": {
            "ratio": spent["PLANT as printed"] / spent["PLANT fused"],
            "learned_ratio": spent["learned as printed"] / spent["learned fused"],
            "seconds": spent,
        },
        "planted_against_learned": {"ratio": spent["learned fused"] / spent["PLANT fused"]},
        "focused_against_learned": {"ratio": spent["learned fused"] / spent["PLANT focused"]},
        "memory": {"ratio": megabytes["PLANT as printed"] / megabytes["PLANT fused"], "megabytes": megabytes},
        "focused_memory_against_learned": {"ratio": megabytes["PLANT focused"] / megabytes["learned fused"]},
    }


def table(found: dict[str, dict[str, object]]) -> str:
    rows = [f"{name:28} {took:8.3f} s" for name, took in found.get("fused_step", {}).get("seconds", {}).items()]
    rows += [
        f"{name}, {way:16} {took:8.2f} ms a note"
        for name, values in found.items()
        for way, took in values.get("milliseconds_a_note", {}).items()
    ]
    rows += [f"memory, {name:20} {size:8.1f} MB" for name, size in _megabytes(found)]
    rows += [f"{name:30} {values['ratio']:8.2f} x" for name, values in found.items()]
    return "\n".join(rows)


def _megabytes(found: dict[str, dict[str, object]]) -> list[tuple[str, float]]:
    return list(found["memory"]["megabytes"].items()) if "memory" in found else []


if __name__ == "__main__":
    main()
