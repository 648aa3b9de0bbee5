"""How time and memory of each step grow with the notes, the labels and the length of a note.

    python benchmarks/growth.py [--json] [--lines growth.jsonl] [--steps prepare,rank] [--table FILE] [--plot FILE]

Every point runs in a process of its own on made-up notes: words as frequent as words are, one thread, CPU seconds,
medians of few turns after one that compiles; memory is the peak of that whole process, Python and torch among it.
Points are added to the JSON lines one by one, and those that stand there are not run again. `exponent` is the slope of
a line through the upper half of a series, in logarithms: 1 doubles with what it is drawn against.

- prepare: `plant prepare` on a CSV file; relate: mutual information, 1,000 words a label
- rank: an epoch of the ranker, from 20 of its steps
- fit: one step of 4 notes, `plant-cnn` with `decoder.listed=100`: forward, backward, clip, AdamW
- predict: the 15 best codes of one note with their evidence, from its text, by that model
"""

import argparse
import csv
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
from numpy.typing import NDArray

N_TOKENS, CODES_PER_NOTE, LISTED, BLOCK = 50_000, 15, 100, 1_000
SIZES = {
    "notes": (1_000, 3_000, 10_000, 30_000, 100_000),
    "labels": (500, 2_000, 8_929, 40_000, 170_000),
    "length": (200, 600, 2_000, 6_000, 20_000),
}


@dataclass(frozen=True)
class Point:
    """A step and the sizes that it is measured at."""

    step: str
    axis: str
    notes: int
    labels: int
    length: int


BASES = (  # the sizes that stay as they are while one of them grows
    Point("prepare", "notes", 0, 2_000, 300),
    Point("prepare", "labels", 12_000, 0, 300),
    Point("prepare", "length", 1_000, 2_000, 0),
    Point("relate", "notes", 0, 2_000, 300),
    Point("relate", "labels", 12_000, 0, 300),
    Point("relate", "length", 1_000, 2_000, 0),
    Point("rank", "labels", 0, 0, 0),
    Point("fit", "labels", 4, 0, 1_500),
    Point("fit", "length", 4, 8_929, 0),
    Point("predict", "labels", 1, 0, 1_500),
    Point("predict", "length", 1, 8_929, 0),
)


def points(steps: Sequence[str]) -> Iterator[Point]:
    for base in BASES:
        if not steps or base.step in steps:
            yield from (replace(base, **{base.axis: size}) for size in SIZES[base.axis])


def vocabulary(size: int) -> list[str]:
    """Made-up words of letters, no two the same."""
    letters = "etaoinshrdlucmfw"
    return ["".join(letters[(number >> shift) & 15] for shift in (16, 12, 8, 4, 0)) for number in range(size)]


def zipf(random: np.random.Generator, shape: int | tuple[int, ...]) -> NDArray[np.int64]:
    """Numbers of words; the n-th is drawn 1/n as often as the first."""
    return 2 + np.searchsorted(chances(), random.random(shape)).clip(max=N_TOKENS - 3)


@cache
def chances() -> NDArray[np.float64]:
    """The chance that a drawn word is one of the first n, for all n."""
    sums = np.cumsum(1 / np.arange(2, N_TOKENS))
    return sums / sums[-1]


def drawn_codes(random: np.random.Generator, first: int, last: int, n_labels: int) -> NDArray[np.int64]:
    """Codes of notes `first` to `last`: popular and rare ones, and one after the other, so that each has a note."""
    popular = np.floor(n_labels ** random.random((last - first, CODES_PER_NOTE))).astype(np.int64) - 1
    turns = np.arange(first * CODES_PER_NOTE, last * CODES_PER_NOTE).reshape(popular.shape) % n_labels
    return np.where(np.arange(CODES_PER_NOTE) == 0, popular, turns)


def write_notes(path: Path, point: Point) -> None:
    random, words = np.random.default_rng(0), np.array(vocabulary(N_TOKENS))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "codes"])
        for first in range(0, point.notes, BLOCK):
            last = min(first + BLOCK, point.notes)
            codes = drawn_codes(random, first, last, point.labels)
            for note, own in enumerate(codes, first):
                text = " ".join(words[zipf(random, point.length)])
                writer.writerow([note, text, ";".join(f"C{code:06}" for code in sorted(set(own.tolist())))])


def cpu_seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def median_seconds(work: Callable[[], object], *, turns: int = 3) -> float:
    work()  # compiles
    return statistics.median(cpu_seconds(work) for _ in range(turns))


def prepare(point: Point, notes: Path) -> float:
    from plant.recipe.schema import Recipe
    from plant.steps.prepare import Request, prepare_once

    return cpu_seconds(lambda: prepare_once(Request(str(notes)), notes.parent / "corpus", Recipe()))


def relate(point: Point, _: Path) -> float:
    from plant.recipe.schema import Relate
    from plant.steps import relate as step

    step.relate(view_of(replace(point, notes=20, labels=20, length=50)), Relate(), threads=1)  # compiles
    view = view_of(point)
    return cpu_seconds(lambda: step.relate(view, Relate(), threads=1))


def view_of(point: Point) -> Any:
    """Made-up notes to be fitted on."""
    from plant.codes.codebook import CodeBook
    from plant.data.corpus import Documents, TrainingView
    from plant.store.ragged import Ragged
    from plant.text.vocab import Vocab

    random, n = np.random.default_rng(0), point.notes
    tokens = np.empty(n * point.length, np.int32)
    for first in range(0, len(tokens), 1 << 20):
        tokens[first : first + (1 << 20)] = zipf(random, len(tokens[first : first + (1 << 20)]))
    labels = Ragged.of([np.unique(row) for row in drawn_codes(random, 0, n, point.labels)], np.int32)
    nothing, none = np.zeros(n + 1, np.int64), np.empty(0, np.int32)
    documents = Documents(
        ids=("",) * n, tokens=tokens, token_starts=np.arange(n + 1) * point.length, labels=labels.values,
        label_starts=labels.starts, char_starts=none, char_ends=none, evidence_labels=none,
        evidence_spans=none.reshape(0, 2), evidence_starts=nothing, text=np.empty(0, np.uint8), text_starts=nothing,
    )  # fmt: skip
    codes = tuple(f"C{label:06}" for label in range(point.labels))
    return TrainingView(Vocab(tuple(vocabulary(N_TOKENS))), CodeBook("other", codes), codes, documents)


def lists_for(n_labels: int) -> Any:
    """Relevance of 100 words a label, best first; they meet a note about as often as real lists do."""
    from plant.relevance.relevance import Relevance

    random = np.random.default_rng(0)
    first, stride = random.integers(0, N_TOKENS, n_labels), 2 * random.integers(0, 20_000, n_labels) + 1
    tokens = (first[:, None] + stride[:, None] * np.arange(LISTED)) % (N_TOKENS - 2) + 2
    scores = np.sort(random.random((n_labels, LISTED), dtype=np.float32), axis=1)[:, ::-1]
    return Relevance(
        codes=tuple(f"C{label:06}" for label in range(n_labels)), tokens=tokens.astype(np.uint16),
        scores=np.ascontiguousarray(scores), label_counts=np.ones(n_labels, np.int64),
        token_counts=np.ones(N_TOKENS, np.int64), n_documents=1, form="positive",
    )  # fmt: skip


def rank(point: Point, _: Path, *, steps: int = 20) -> float:
    """An epoch of so many batches of labels, from the first of them; every label was touched an epoch ago."""
    from plant.recipe.schema import Rank
    from plant.train.ranker import RankerTask, build_ranker

    relevance = lists_for(point.labels)
    task = RankerTask(build_ranker(relevance, Rank(), seed=1), relevance, Rank(), seed=1)
    batches = task.batches(0)
    timed = batches[1 : steps + 1]

    def learn(labels: NDArray[np.int64]) -> None:
        task.training_step(labels)
        task.optimizer.step()
        task.optimizer.zero_grad(set_to_none=True)

    learn(batches[0])  # compiles, and makes what the optimizer keeps
    seconds = 0.0
    if task.rows is not None:
        task.rows.step = len(batches)
        seconds = cpu_seconds(task.rows.settle)  # the end of an epoch
        task.rows.step = 2 * len(batches)
    return seconds + cpu_seconds(lambda: [learn(labels) for labels in timed]) / len(timed) * len(batches)


def given_for(n_labels: int) -> Any:
    """What the parts of a planted classifier ask for, made up."""
    from plant.codes.codebook import CodeBook
    from plant.nn.parts.given import Given
    from plant.nn.planting.ranker import RANKERS
    from plant.text.vocab import Vocab

    relevance, vocab = lists_for(n_labels), Vocab(("<pad>", "<unk>", *vocabulary(N_TOKENS)[2:]))
    ranker = RANKERS.build("bilinear", {}, n_tokens=N_TOKENS, n_labels=n_labels)
    frequencies = np.full(n_labels, 1e-4, np.float32)
    return Given(vocab, relevance.codes, CodeBook("other", (), {}), frequencies, relevance, ranker)


def model_of(n_labels: int) -> Any:
    """`plant-cnn` with sparse planting and random weights."""
    from plant.nn.parts.build import build_classifier
    from plant.recipe.reading import load_recipe
    from plant.systems.classifier import ClassifierSystem

    recipe, given = load_recipe("plant-cnn", ["decoder.listed=100"]), given_for(n_labels)
    return ClassifierSystem(recipe, build_classifier(recipe, given), given)


def fit(point: Point, _: Path) -> float:
    import torch

    from plant.tensors import Batch

    torch.manual_seed(0)
    classifier, random = model_of(point.labels).classifier.train(), np.random.default_rng(1)
    tokens = torch.from_numpy(zipf(random, (point.notes, point.length)))
    targets = torch.zeros(point.notes, point.labels)
    targets.scatter_(1, torch.randint(0, point.labels, (point.notes, CODES_PER_NOTE)), 1.0)
    batch = Batch(tokens, torch.ones_like(tokens).bool(), targets)
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=1e-3, betas=(0.9, 0.99), fused=True)

    def learn() -> None:
        (classifier.loss(batch) * point.labels).backward()
        torch.nn.utils.clip_grad_norm_(classifier.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return median_seconds(learn)


def predict(point: Point, _: Path) -> float:
    import torch

    from plant.systems.coder import FittedCoder

    torch.manual_seed(0)
    model, words = model_of(point.labels), np.array(vocabulary(N_TOKENS))
    coder = FittedCoder(
        recipe=model.recipe, vocab=model.given.vocab, codebook=model.given.codebook, codes=model.given.codes,
        system=model, thresholds=np.full(point.labels, 0.5, np.float32), temperature=1.0,
        train_counts=np.zeros(point.labels, np.int64), train_documents=0, facts={},
    )  # fmt: skip
    text = " ".join(words[zipf(np.random.default_rng(1), point.length)])
    assert coder.code(coder.encode([text]), top=15)[0].ranked[0].evidence
    return median_seconds(lambda: coder.code(coder.encode([text]), top=15))


STEPS = {"prepare": prepare, "relate": relate, "rank": rank, "fit": fit, "predict": predict}


def measure_here(point: Point, notes: Path) -> None:
    seconds = STEPS[point.step](point, notes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**asdict(point), "seconds": seconds, "megabytes": peak}))


def measure_alone(point: Point) -> dict[str, Any]:
    """The point in a process of its own; notes that it reads are written beforehand."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes.csv"
        if point.step == "prepare":
            write_notes(notes, point)
        command = [sys.executable, __file__, "--point", json.dumps(asdict(point)), "--notes-file", str(notes)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def known_points(lines: Path) -> dict[Point, dict[str, Any]]:
    found = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    return {Point(**{name: row[name] for name in Point.__annotations__}): row for row in found}


def measure_all(lines: Path, steps: Sequence[str]) -> list[dict[str, Any]]:
    known = known_points(lines)
    for point in points(steps):
        if point not in known:
            known[point] = measure_alone(point)
            with lines.open("a") as file:
                file.write(json.dumps(known[point]) + "\n")
            print(f"{point} {known[point]['seconds']:.3f} s {known[point]['megabytes']:.0f} MB", file=sys.stderr)
    return [known[point] for point in points(()) if point in known]


def series(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["step"], row["axis"]), []).append(row)
    return found


def exponent(rows: Sequence[dict[str, Any]], what: str) -> float:
    """The slope of a line through the upper half of the points, in logarithms."""
    upper = rows[len(rows) // 2 :]
    if len(upper) < 2:
        return math.nan
    sizes = np.log([row[row["axis"]] for row in upper])
    return float(np.polyfit(sizes, np.log([row[what] for row in upper]), 1)[0])


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {
        f"{step}_{axis}": {
            "time_exponent": exponent(own, "seconds"), "memory_exponent": exponent(own, "megabytes"),
            "seconds": own[-1]["seconds"], "megabytes": own[-1]["megabytes"],
        }
        for (step, axis), own in series(rows).items()
    }  # fmt: skip


def write_table(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A line for each series: what each size took, and how it grows."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "against", "smallest", "middle", "largest", "time grows as", "memory grows as"])
        for (step, axis), own in series(rows).items():
            shown = [own[0], own[len(own) // 2], own[-1]]
            cells = [f"{row[axis]:,}: {row['seconds']:.3g} s {row['megabytes']:,.0f} MB" for row in shown]
            writer.writerow([step, axis, *cells, *(f"{exponent(own, what):.2f}" for what in ("seconds", "megabytes"))])


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A panel for each of time and memory against notes, labels and length; both scales logarithmic."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    matplotlib.rcParams.update({"svg.hashsalt": "growth", "font.size": 9})
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    panels = figure.subplots(2, len(SIZES), sharex="col", sharey="row")
    colours = dict(zip(STEPS, ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7"), strict=True))
    whats = {"seconds": "CPU seconds", "megabytes": "peak memory, MB"}
    for panel_row, (what, name) in zip(panels, whats.items(), strict=True):
        panel_row[0].set_ylabel(name)
        for panel, axis in zip(panel_row, SIZES, strict=True):
            for (step, against), own in series(rows).items():
                if against == axis:
                    drawn = [row[axis] for row in own], [row[what] for row in own]
                    panel.plot(
                        *drawn, "o-", color=colours[step], markersize=3.5, linewidth=1.4, label=_legend(own, what)
                    )
            panel.set(xscale="log", yscale="log")
            panel.xaxis.set_major_formatter("{x:,.0f}")
            panel.yaxis.set_major_locator(LogLocator(subs=(1.0,) if what == "seconds" else (1.0, 2.0, 5.0)))
            panel.yaxis.set_major_formatter("{x:,.4g}")
            panel.yaxis.set_minor_formatter("")
            panel.grid(alpha=0.25)
            panel.legend(fontsize=8, framealpha=0.8)
    for panel, axis in zip(panels[1], SIZES, strict=True):
        panel.set_xlabel({"notes": "notes", "labels": "labels", "length": "words of a note"}[axis])
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)


def _legend(own: Sequence[dict[str, Any]], what: str) -> str:
    unit = {"rank": ", an epoch", "fit": ", a step of 4 notes", "predict": ", a note"}.get(own[0]["step"], "")
    return f"{own[0]['step']}{unit}: n^{exponent(own, what):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lines", type=Path, default=Path("growth.jsonl"))
    parser.add_argument("--steps", type=lambda names: names.split(","), default=[])
    parser.add_argument("--table", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--notes-file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        measure_here(Point(**arguments.point), arguments.notes_file)
        return
    rows = measure_all(arguments.lines, arguments.steps)
    if arguments.table:
        write_table(rows, arguments.table)
    if arguments.plot:
        draw(rows, arguments.plot)
    found = summary(rows)
    lines = [f"{name:16} {row['time_exponent']:6.2f} {row['memory_exponent']:6.2f}" for name, row in found.items()]
    print(json.dumps(found) if arguments.json else "\n".join(["step_against      time memory", *lines]))


if __name__ == "__main__":
    main()
