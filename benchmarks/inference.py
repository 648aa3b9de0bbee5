"""Notes per second of a planted AWD-LSTM coder: the equations as printed, float32 and eight bits; codes with evidence.

    python benchmarks/inference.py [--json] [--notes 16] [--length 1500] [--labels 8929] [--run RUN] [--reported 60]
    python benchmarks/inference.py --only predict [--json] [--rounds 5]

Speed is that of one batch of made-up notes with random weights (embedding 400, layers of 1152, 1152 and 400 units), CPU
time of one thread, turns interleaved, medians. `literal` is torch's LSTM and the equations with arrays of time x label,
`float32` and `int8` are what `plant predict` does. What eight bits change, and how many notes a second go from text to
probabilities, is measured on the reported notes of a fitted run (all, or the first `--reported`), given with `--run`;
its encoder must be an AWD-LSTM. Without a run, a small one is fitted on the demo corpus first.

`predict_8929` and `predict_170000`: milliseconds a note from numbered words to the 15 best codes with their phrases, in
the shape of `plant-cnn` (convolution of 200 beside words of 200, `listed = 100`, k = 10; made-up notes of 1,500 words
and random weights), as `plant predict` does it; `evidence` is the share of it that phrases take; `ratio` is the time of
the same coder with `listed = 0`, which at 170,000 labels codes one note only.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from decoder import FEW, LISTED, N_TOKENS, SHAPES, Shape, lists_of_own_words, made_up_note, made_up_relevance, zipf
from torch import Tensor, nn

from plant.codes.codebook import CodeBook
from plant.data.corpus import Documents, Role, gold_codes, take
from plant.data.store import load_corpus
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import scored_densely
from plant.nn.classifier import Classifier
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.encoders.awd_lstm import AWDLSTMEncoder
from plant.nn.losses import BCE
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.nn.planting.ranker import RANKERS
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Recipe
from plant.steps.prepare import Request
from plant.steps.run import run
from plant.systems.classifier import ClassifierSystem, ready
from plant.systems.coder import FittedCoder, load_coder
from plant.text.vocab import PADDING, Vocab

MEASURES = ("P@5", "P@8", "P@15", "MAP")
SMALL = (
    "pretrain.embedding=64", "pretrain.hidden=128", "pretrain.layers=2", "pretrain.epochs=1", "fit.frozen_epochs=3",
    "fit.unfreezing_epochs=0", "fit.epochs=1",
)  # fmt: skip


def made_up_model(n_labels: int) -> ClassifierSystem:
    torch.manual_seed(0)
    relevance = made_up_relevance(np.random.default_rng(0), n_labels, 1_000)
    ranker = RANKERS.build("bilinear", {}, n_tokens=N_TOKENS, n_labels=n_labels)
    encoder = AWDLSTMEncoder(N_TOKENS)
    decoder = PlantedDecoder(encoder.size, n_labels, relevance=relevance, ranker=ranker)
    codes = tuple(str(label) for label in range(n_labels))
    given = Given(Vocab(("", "?")), codes, CodeBook("other", (), {}), np.zeros(n_labels, np.float32), relevance)
    return ClassifierSystem(Recipe(), Classifier(encoder, decoder, BCE()).eval(), given)


def made_up_notes(count: int, length: int) -> Documents:
    """Notes of words as frequent as words are."""
    tokens = zipf(np.random.default_rng(0), count * length).astype(np.int32)
    nothing, empty = np.zeros(count + 1, np.int64), np.empty(0, np.int32)
    return Documents(
        ids=tuple(str(note) for note in range(count)), tokens=tokens, token_starts=np.arange(count + 1) * length,
        labels=empty, label_starts=nothing, char_starts=tokens, char_ends=tokens, evidence_labels=empty,
        evidence_spans=np.empty((0, 2), np.int32), evidence_starts=nothing, text=np.empty(0, np.uint8),
        text_starts=nothing,
    )  # fmt: skip


class Literal:
    """The same weights, as the paper prints the model and torch offers its parts."""

    def __init__(self, model: ClassifierSystem) -> None:
        self.decoder = model.classifier.decoder
        network = model.classifier.encoder.network
        self.words = network.words.detach()
        self.layers = [nn.LSTM(a, b, batch_first=True) for a, b in pairwise([network.size, *network.sizes])]
        for layer, ours in zip(self.layers, network.layers, strict=True):
            weights = (ours.input_weight, ours.recurrent_weight, ours.bias, torch.zeros_like(ours.bias))
            layer.load_state_dict(dict(zip(layer.state_dict(), weights, strict=True)))

    @torch.no_grad()
    def read(self, documents: Documents) -> Tensor:
        tokens = torch.from_numpy(documents.tokens.reshape(len(documents), -1)).long()
        states = self.words[F.pad(tokens, (1, 0), value=PADDING)]
        for layer in self.layers:
            states = layer(states)[0]
        return torch.stack([self.logits(*document) for document in zip(states[:, 1:], tokens, strict=True)]).sigmoid()

    def logits(self, states: Tensor, tokens: Tensor) -> Tensor:
        learned, labels = self.decoder.learned, torch.arange(len(self.decoder.learned.bias))
        attention = (states @ learned.queries.T).softmax(0)
        static = dense_relevance(self.decoder, tokens)
        scores = self.decoder.ranker.scores(tokens, labels).T
        floor = scores.topk(self.decoder.k, dim=0).values[-1]
        planted = scores.masked_fill(scores < floor, -torch.inf).softmax(0)
        pooled = sum(weights.T @ states for weights in (attention, static, planted))
        return (pooled * learned.weights).sum(-1) + learned.bias


def dense_relevance(decoder: PlantedDecoder, tokens: Tensor) -> Tensor:
    """Relevance at each position, time x label, divided by its sum."""
    starts, rows = decoder.list_starts, torch.zeros(len(tokens), len(decoder.learned.bias))
    for position, token in enumerate(tokens.tolist()):
        entries = slice(int(starts[token]), int(starts[token + 1]))
        rows[position, decoder.list_labels[entries].long()] = decoder.list_scores[entries]
    return rows / rows.sum(0).clamp(min=1e-30)


def coder_of(shape: Shape, *, listed: int) -> FittedCoder:
    """A coder in the shape of plant-cnn with random weights."""
    torch.manual_seed(0)
    relevance = lists_of_own_words(np.random.default_rng(0), shape)
    recipe = load_recipe("plant-cnn", (f"decoder.listed={listed}", f"decoder.k={FEW}"))
    ranker = RANKERS.build("bilinear", {}, n_tokens=shape.n_tokens, n_labels=shape.n_labels)
    codes = tuple(f"C{label}" for label in range(shape.n_labels))
    vocab = Vocab(tuple(f"w{token}" for token in range(shape.n_tokens)))
    frequencies = np.full(shape.n_labels, 1e-3, np.float32)
    given = Given(vocab, codes, CodeBook("other", (), {}), frequencies, relevance, ranker)
    system = ready(ClassifierSystem(recipe, build_classifier(recipe, given).eval(), given))
    return FittedCoder(
        recipe=recipe, vocab=vocab, codebook=given.codebook, codes=codes, system=system,
        thresholds=np.full(shape.n_labels, 0.999, np.float32), temperature=1.0,
        train_counts=np.zeros(shape.n_labels, np.int64), train_documents=0, facts={},
    )  # fmt: skip


def notes_of(shape: Shape, count: int, *, seed: int) -> Documents:
    """Made-up notes, words of one letter as their text."""
    generator = np.random.default_rng(seed)
    tokens = np.concatenate([made_up_note(generator, shape) for _ in range(count)]).astype(np.int32)
    places = np.tile(np.arange(shape.length, dtype=np.int32), count)
    starts, nothing, empty = np.arange(count + 1) * shape.length, np.zeros(count + 1, np.int64), np.empty(0, np.int32)
    return Documents(
        ids=tuple(str(note) for note in range(count)), tokens=tokens, token_starts=starts, labels=empty,
        label_starts=nothing, char_starts=places, char_ends=places + 1, evidence_labels=empty,
        evidence_spans=np.empty((0, 2), np.int32), evidence_starts=nothing,
        text=np.full(len(tokens), ord("w"), np.uint8), text_starts=starts,
    )  # fmt: skip


def coded(shape: Shape, *, listed: int, notes: int, rounds: int) -> dict[str, float]:
    """Milliseconds a note with and without evidence, medians of turns on the same notes, either way first in turn."""
    coder, documents = coder_of(shape, listed=listed), notes_of(shape, notes, seed=0)
    ways = {"with": partial(coder.code, evidence=True), "without": partial(coder.code, evidence=False)}
    orders = [list(ways), list(ways)[::-1]]
    for way in ways.values():
        way(documents)  # compiles, and stores the ranker's scores of listed pairs
    spent = [{name: seconds(ways[name], documents) for name in orders[turn % 2]} for turn in range(rounds)]
    return {name: 1e3 * statistics.median(turn[name] for turn in spent) / notes for name in ways}


def prediction(shape: Shape, *, notes: int, rounds: int) -> dict[str, float]:
    """Sparse planting as the recipes have it, beside a look at all words."""
    took = coded(shape, listed=LISTED, notes=notes, rounds=rounds)
    plain = coded(shape, listed=0, notes=1, rounds=1)
    return {
        "milliseconds": took["with"],
        "evidence": max(0.0, took["with"] - took["without"]) / took["with"],
        "milliseconds_without_evidence": took["without"],
        "milliseconds_all_words": plain["with"],
        "ratio": plain["with"] / took["with"],
    }


def seconds(way: Callable[[Documents], object], documents: Documents) -> float:
    started = time.process_time()
    way(documents)
    return time.process_time() - started


def speed(*, notes: int, length: int, n_labels: int, rounds: int) -> dict[str, float]:
    """Notes per second of each way."""
    model, documents, warm = made_up_model(n_labels), made_up_notes(notes, length), made_up_notes(2, 100)
    literal, quantized = Literal(model), model.quantized()
    ways = {"literal": literal.read, "float32": model.read, "int8": quantized.read}
    for way in ways.values():
        way(warm)  # compiles
    spent = [{name: seconds(way, documents) for name, way in ways.items()} for _ in range(rounds)]
    return {name: notes / statistics.median(turn[name] for turn in spent) for name in ways}


def agreement(folder: Path, *, most: int, rounds: int) -> dict[str, dict[str, float]]:
    """What eight bits change on the reported notes of a run, and the notes a second from text to probabilities."""
    fitted, corpus = load_coder(folder / "coder"), load_corpus(folder / "corpus")
    rows = np.flatnonzero(corpus.role == Role.REPORT)[: most or None]
    documents, gold = take(corpus.documents, rows), gold_codes(corpus, Role.REPORT)[: len(rows)]
    texts = [documents.text_of(row) for row in range(len(documents))]
    ways = {"float32": fitted, "int8": fitted.quantized()}
    found = {name: [from_text(coder, texts) for _ in range(rounds)] for name, coder in ways.items()}
    exact, rounded = (found[name][0][0] for name in ways)
    before, after = (precisions(fitted, scores, documents, gold) for scores in (exact, rounded))
    best = [np.argsort(-scores, axis=1, kind="stable")[:, :15] for scores in (exact, rounded)]
    return {
        "notes_per_second": {
            name: len(texts) / statistics.median(spent for _, spent in turns) for name, turns in found.items()
        },
        "float32": before,
        "int8 - float32": {name: after[name] - before[name] for name in MEASURES},
        "more": {
            "common codes of the first 15": float(np.mean([len({*a} & {*b}) for a, b in zip(*best, strict=True)])),
            "largest change of a probability": float(np.abs(exact - rounded).max()),
            "notes": len(documents),
            "words": len(documents.tokens),
            "codes": len(fitted.codes),
        },
    }


def from_text(fitted: FittedCoder, texts: list[str]) -> tuple[np.ndarray, float]:
    """The probabilities and the CPU seconds they took; one note before the clock starts, to compile."""
    fitted.probabilities(fitted.encode(texts[:1]))
    started = time.process_time()
    scores = fitted.probabilities(fitted.encode(texts))
    return scores, time.process_time() - started


def precisions(fitted: FittedCoder, scores: np.ndarray, documents: Documents, gold: list) -> dict[str, float]:
    scored = scored_densely(scores, ids=documents.ids, codes=fitted.codes, gold=gold, thresholds=fitted.thresholds)
    outcome = outcome_of(scored, areas=False)
    return {name: measure(name)(outcome) for name in MEASURES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--notes", type=int, default=16)
    parser.add_argument("--length", type=int, default=1_500)
    parser.add_argument("--labels", type=int, default=8_929)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--reported", type=int, default=0)
    parser.add_argument("--only", choices=["predict"], default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rounds = max(3, arguments.rounds)
    found = {f"predict_{name}": prediction(SHAPES[name], notes=16, rounds=rounds) for name in ("8929", "170000")}
    if not arguments.only:
        found |= eight_bits(arguments)
    print(json.dumps(found) if arguments.json else table(found))


def eight_bits(arguments: argparse.Namespace) -> dict[str, dict]:
    with tempfile.TemporaryDirectory() as folder:
        if arguments.run is None:
            run(Request("demo"), load_recipe("plant", SMALL), Path(folder), name="plant")
        trained = agreement(arguments.run or Path(folder), most=arguments.reported, rounds=arguments.rounds)
    shape = {"notes": arguments.notes, "length": arguments.length, "n_labels": arguments.labels}
    found = speed(**shape, rounds=arguments.rounds)
    return {
        "inference_int8": {
            "ratio": found["int8"] / found["float32"],
            "against_literal": found["int8"] / found["literal"],
            "notes_per_second": found,
        },
        "inference_float32": {"ratio": found["float32"] / found["literal"]},
        "inference_trained_int8": {
            "ratio": trained["notes_per_second"]["int8"] / trained["notes_per_second"]["float32"],
            **trained,
        },
    }


def table(result: dict[str, dict]) -> str:
    predicted = {name: values for name, values in result.items() if name.startswith("predict")}
    rows = [f"{name}, {key:32} {value:9.3f}" for name, values in predicted.items() for key, value in values.items()]
    if "inference_int8" not in result:
        return "\n".join(rows)
    made_up, trained = result["inference_int8"]["notes_per_second"], result["inference_trained_int8"]
    rows += [f"{'made up, ' + name:34} {value:8.3f} notes/s" for name, value in made_up.items()]
    rows += [f"{'trained, ' + name:34} {value:8.3f} notes/s" for name, value in trained["notes_per_second"].items()]
    rows += [f"{'float32, ' + name:34} {value:8.4f}" for name, value in trained["float32"].items()]
    rows += [f"{'int8 - float32, ' + name:34} {value:+8.4f}" for name, value in trained["int8 - float32"].items()]
    rows += [f"{name:34} {value:8.3f}" for name, value in trained["more"].items()]
    rows += [f"{name:34} {values['ratio']:8.2f} x" for name, values in result.items()]
    return "\n".join(rows)


if __name__ == "__main__":
    main()
