"""What work on many processes and machines costs and gains, as ratios in one run.

    python benchmarks/scale.py [merge] [shards] [relate] [labels] [predict] [train] [--json]    without a name, all
    python benchmarks/scale.py train --processes 1,2                            few numbers of processes

CPU seconds of all processes; wall time tells something only on a machine that does nothing else.

- merge: the counts of two shards of notes added by walking along their rows, against the sum by sorting that it
  replaced (`np.unique` over all pairs).
- predict: shards of demo notes with evidence, by one process (0) and by `--workers` 1, 2 and 4; the cost of a note is
  what many take beyond few, so that the starts of processes do not count. The bytes must be the same.
- shards: relevance of a corpus in four shards, one after the other, against that of the whole: the lists must be the
  same.
- relate: `plant relate` of made-up notes by one process and by two, many notes beyond few. The lists must be the same.
- labels: how many bytes two processes that share the labels of a planted classifier sum for an update of 16 notes,
  against two that share its notes; both make the update, with 170,000 labels, 50,000 words and random weights.
- train: `plant run` of one classifier by 1, 2 and 4 processes that share its updates of four micro-batches; the cost of
  an epoch is what many take beyond few. The weights of the coders must be near each other, as sums of floats are.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parents[1]))  # made-up notes are those of the tests

import numpy as np

from plant.text.vocab import SPECIAL, Vocab

PAIRS, TOKENS, LABELS = 10_000_000, 60_000, 2_000


def merge() -> dict[str, float]:
    """Two halves of ten million pairs."""
    from plant.relevance.counts import PairCounts

    def half(seed: int) -> Any:
        random = np.random.default_rng(seed)
        keys = np.unique(random.integers(0, LABELS * TOKENS, PAIRS // 2))
        starts = np.searchsorted(keys, np.arange(LABELS + 1, dtype=np.int64) * TOKENS)
        together = random.integers(1, 9, len(keys)).astype(np.int32)
        nothing = np.zeros(TOKENS, np.int64), np.zeros(LABELS, np.int64)
        return PairCounts(10, *nothing, starts, (keys % TOKENS).astype(np.uint16), together)

    first, second = half(1), half(2)
    _ = first + second  # compiles
    ours, theirs = cpu(lambda: first + second), cpu(lambda: sorted_sum(first, second))
    merged, keys = first + second, sorted_sum(first, second)
    assert np.array_equal(merged.together, keys[1])
    return {"pairs": float(len(merged.tokens)), "merged_s": ours, "sorted_s": theirs, "times_faster": theirs / ours}


def sorted_sum(first: Any, second: Any) -> tuple[Any, Any]:
    """The sum as it was: one key for each pair, all sorted again."""
    keys = [np.repeat(np.arange(LABELS), np.diff(part.starts)) * TOKENS + part.tokens for part in (first, second)]
    distinct, where = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(distinct), np.int32)
    np.add.at(sums, where, np.concatenate([first.together, second.together]))
    return distinct, sums


def cpu(work: Callable[[], Any], times: int = 3) -> float:
    """CPU seconds of the quickest of some times."""

    def once() -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    return min(once() for _ in range(times))


@dataclass(frozen=True)
class Spent:
    """CPU seconds of a command with all that it starts, its wall seconds, the memory of the largest process."""

    cpu: float
    wall: float
    peak_megabytes: float


def plant(*arguments: str) -> Spent:
    """What a `plant` command takes."""
    begun = time.monotonic()
    with TemporaryFile() as said:
        process = subprocess.Popen([sys.executable, "-m", "plant", *arguments], stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(said.read().decode()[-2000:])
    return Spent(usage.ru_utime + usage.ru_stime, time.monotonic() - begun, usage.ru_maxrss / 1024)


def write_notes(folder: Path, *, times: int = 1) -> None:
    """Demo notes in one file to fit on, and in shards to predict: `few`, and `many`, the same so many times."""
    from plant.data.sources import open_source

    notes = [note for _, note in zip(range(NOTES), open_source("demo").notes(), strict=False)]
    rows = [
        {"id": n.id, "text": n.text, "codes": list(n.codes), "split": ("train", "train", "dev")[place % 3]}
        for place, n in enumerate(notes)
    ]
    (folder / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name, count in (("few", 1), ("many", times)):
        (folder / name).mkdir()
        repeated = [{"id": f"{n.id} {again}", "text": n.text} for again in range(count) for n in notes]
        for number in range(SHARDS):
            some = [json.dumps(row) + "\n" for row in repeated[number::SHARDS]]
            (folder / name / f"part{number}.jsonl").write_text("".join(some), encoding="utf-8")


def shards() -> dict[str, float]:
    """Made-up notes of as many words and codes as those of a hospital have."""
    from plant.codes.codebook import CodeBook
    from plant.data.corpus import TrainingView
    from plant.recipe.schema import Relate
    from plant.relevance.counts import incidence, joined
    from plant.steps.relate import in_threads, relate_views
    from tests.made_up import documents_of

    random = np.random.default_rng(1)
    codes, words = tuple(f"C{n}" for n in range(500)), 20_000
    notes = [random.zipf(1.2, 300) % (words - 2) + 2 for _ in range(2_000)]
    labels = [sorted(set((random.zipf(1.3, 12) % len(codes)).tolist())) for _ in notes]
    vocab = Vocab((*SPECIAL, *(f"w{n}" for n in range(words - 2))))

    def view(rows: range) -> TrainingView:
        some = documents_of([notes[row].tolist() for row in rows], labels=[labels[row] for row in rows])
        return TrainingView(vocab, CodeBook("other", codes), codes, some)

    parts, whole = [view(range(first, first + 500)) for first in range(0, 2_000, 500)], view(range(2_000))
    recipe, find = Relate(keep=100, named=0), in_threads(1)
    one, many = relate_views([whole], recipe, find=find), relate_views(parts, recipe, find=find)  # compiles
    assert one.tokens.tobytes() == many.tokens.tobytes()
    assert one.scores.tobytes() == many.scores.tobytes()
    sizes = {"n_tokens": words, "n_labels": len(codes)}
    found = [incidence(part.documents, **sizes) for part in parts]
    spent = cpu(lambda: relate_views([whole], recipe, find=find)), cpu(lambda: relate_views(parts, recipe, find=find))
    return {
        "whole_s": spent[0],
        "shards_s": spent[1],
        "joining_s": cpu(lambda: joined(found)),
        "cpu_ratio": spent[1] / spent[0],
    }


EPOCHS = (1, 25)  # so many that a second more or less for a start does not decide
SMALL = ("fit.epochs=2", "fit.patience=0", "rank.epochs=3", "prepare.min_count=2", "fit.accumulate=4", "fit.batch=4")


def relate() -> dict[str, float]:
    """What many notes take beyond few."""
    random, taken = np.random.default_rng(1), dict[tuple[int, int], Spent]()
    with TemporaryDirectory() as name:
        folder = Path(name)
        for notes in RELATED:
            rows = [
                {
                    "id": str(number),
                    "text": " ".join(f"w{word}" for word in (random.zipf(1.2, 400) % 30_000).tolist()),
                    "codes": sorted({f"C{code}" for code in (random.zipf(1.3, 12) % 5_000).tolist()}),
                    "split": "train" if number else "test",
                }
                for number in range(notes)
            ]
            (folder / f"{notes}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            corpus = str(folder / f"corpus{notes}")
            plant("prepare", str(folder / f"{notes}.jsonl"), "--out", corpus, "--set", "prepare.keep_numbers=true")
            if notes == RELATED[0]:  # whoever comes first compiles kernels
                plant("relate", corpus, "--out", str(folder / "warm"), "--workers", "1")
            for workers in (1, 2):
                out = str(folder / f"{notes}-{workers}")
                taken[notes, workers] = plant("relate", corpus, "--out", out, "--workers", str(workers))
        few, many = RELATED
        assert difference(folder / f"{many}-1", folder / f"{many}-2") == 0
    one, two = (taken[many, workers].cpu - taken[few, workers].cpu for workers in (1, 2))
    walls = [taken[many, workers].wall - taken[few, workers].wall for workers in (1, 2)]
    return {
        "one_s": one,
        "two_s": two,
        "cpu_ratio": two / one,
        "times_faster": walls[0] / walls[1],
    }


def labels() -> dict[str, float]:
    """What two processes give to torch.distributed in an update of `plant-cnn`, counted where they give it."""
    figures = {}
    with TemporaryDirectory() as name, socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port, spawn = found.getsockname()[1], get_context("spawn")
        found.close()
        for share in ("notes", "labels"):
            running = [spawn.Process(target=update, args=(rank, port, share, name)) for rank in range(2)]
            for process in running:
                process.start()
            for process in running:
                process.join()
            figures |= {f"sharing_{share}_megabytes": float((Path(name) / share).read_text()) / 1e6}
    return figures | {"ratio": figures["sharing_labels_megabytes"] / figures["sharing_notes_megabytes"]}


def update(rank: int, port: int, share: str, folder: str) -> None:
    """One of two processes: its part of the gradients, their sum and their clipping; notes in micro-batches of two."""
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    import torch
    from growth import CODES_PER_NOTE, N_TOKENS, given_for

    from plant.nn.parts.build import build_classifier
    from plant.recipe.reading import load_recipe
    from plant.tensors import Batch
    from plant.train.ranges import ranged_classifier
    from plant.train.together import ranked

    recipe, given, random = load_recipe("plant-cnn", ["decoder.listed=100"]), given_for(MANY), np.random.default_rng(1)
    texts = torch.from_numpy(random.zipf(1.2, (UPDATE, NOTE_WORDS)) % (N_TOKENS - len(SPECIAL)) + len(SPECIAL))
    targets = torch.zeros(UPDATE, MANY)
    targets.scatter_(1, torch.from_numpy(random.integers(0, MANY, (UPDATE, CODES_PER_NOTE))), 1.0)
    with ranked(by_labels=share == "labels") as together:
        if together.by_labels:
            ranged = ranged_classifier(recipe, given, together)
            classifier, own, together, mine = ranged.part, ranged.labels, ranged.together, range(0, UPDATE, 2)
        else:
            classifier, own, mine = build_classifier(recipe, given), range(MANY), range(2 * rank, UPDATE, 4)
        for first in mine:
            rows = slice(first, first + 2)
            here = targets[rows, own.start : own.stop]
            classifier.train().loss(Batch(texts[rows], torch.ones_like(texts[rows]).bool(), here)).backward()
        sent, all_reduce = list[int](), torch.distributed.all_reduce

        def counted(tensor: Any, **options: Any) -> Any:
            sent.append(tensor.numel() * tensor.element_size())
            return all_reduce(tensor, **options)

        torch.distributed.all_reduce = counted
        together.sum_gradients(list(classifier.parameters()), micro_batches=UPDATE // 2)
        together.clip(list(classifier.parameters()), 1.0)
    (Path(folder) / share).write_text(str(sum(sent)))  # the same by both


def fit(folder: Path, out: str, *options: str) -> Spent:
    changes = [word for change in SMALL for word in ("--set", change)]
    notes = str(folder / "notes.jsonl")
    return plant("run", notes, "--recipe", "plant-demo", "--out", str(folder / out), *changes, *options)


def predict() -> dict[str, float]:
    """A coder of PLANT over shards; the cost of a note is what many notes take beyond few, starts left aside."""
    figures: dict[str, float] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_notes(folder, times=TIMES)
        fit(folder, "run")
        coder = str(folder / "run" / "coder")
        plant("predict", coder, str(folder / "few"), "--out", str(folder / "warm"))  # whoever comes first compiles
        for workers in WORKERS:
            options = ("--workers", str(workers)) if workers else ()
            taken = {}
            for notes in ("few", "many"):
                out = folder / f"{notes}{workers}"
                taken[notes] = plant("predict", coder, str(folder / notes), "--out", str(out), *options)
                assert contents(out) == contents(folder / f"{notes}{WORKERS[0]}")
            few, many = taken["few"], taken["many"]
            further = NOTES * (TIMES - 1)
            figures |= {f"cpu_ms_a_note_{workers}": (many.cpu - few.cpu) / further * 1000}
            figures |= {f"start_cpu_s_{workers}": few.cpu, f"peak_megabytes_{workers}": many.peak_megabytes}
            figures |= {f"notes_a_second_{workers}": further / max(1e-9, many.wall - few.wall)}
    for what, ratio in (("cpu_ms_a_note", "cpu_ratio"), ("peak_megabytes", "peak_ratio")):
        alone = figures[f"{what}_{WORKERS[0]}"]
        figures |= {f"{ratio}_{workers}": figures[f"{what}_{workers}"] / alone for workers in WORKERS[1:]}
    return figures


def train(processes: Sequence[int] = (1, 2, 4)) -> dict[str, float]:
    """The same updates by one process and by several; an epoch's cost is what many epochs take beyond few."""
    figures: dict[str, float] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_notes(folder)
        shared = ("--shared", str(folder / "shared"))
        fit(folder, "warm", "--set", "fit.epochs=1", *shared)  # compiles, and makes all but the classifier
        for count in processes:
            options = (*shared, "--workers", str(count)) if count > 1 else shared
            few, many = (
                fit(folder, f"{epochs}-{count}", "--set", f"fit.epochs={epochs}", *options) for epochs in EPOCHS
            )
            further = EPOCHS[1] - EPOCHS[0]
            figures |= {f"cpu_s_an_epoch_{count}": (many.cpu - few.cpu) / further, f"start_cpu_s_{count}": few.cpu}
            figures |= {f"notes_a_second_{count}": NOTES * 2 / 3 * further / max(1e-9, many.wall - few.wall)}
            coders = [folder / f"{EPOCHS[1]}-{one}" / "coder" for one in (processes[0], count)]
            figures |= {f"apart_{count}": difference(*coders)}
            assert figures[f"apart_{count}"] < 1e-4
    first = figures[f"cpu_s_an_epoch_{processes[0]}"]
    return figures | {f"cpu_ratio_{count}": figures[f"cpu_s_an_epoch_{count}"] / first for count in processes}


def difference(first: Path, second: Path) -> float:
    """The largest difference of a number in two coders."""
    from plant.store.artifact import open_artifact

    pair = [open_artifact(path).tensors for path in (first, second)]
    pairs = [(np.asarray(pair[0][name]), np.asarray(pair[1][name])) for name in pair[0]]
    return max(float(np.abs(a.astype(np.float64) - b).max(initial=0)) for a, b in pairs)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


RELATED = 2_000, 20_000  # notes
NOTES, SHARDS, TIMES, WORKERS = 240, 8, 11, (0, 1, 2, 4)
UPDATE, NOTE_WORDS, MANY = 16, 1_500, 170_000  # notes of an update where labels are shared, their words, the labels
PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "merge": merge,
    "shards": shards,
    "relate": relate,
    "labels": labels,
    "predict": predict,
    "train": train,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--processes", default="1,2,4", help="that train (default: 1,2,4)")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.processes.split(",")]
    found = {name: train(counts) if name == "train" else PARTS[name]() for name in arguments.parts}
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(name, *(f"{key} {value:,.3f}" for key, value in figures.items()), sep="\n    ")


if __name__ == "__main__":
    main()
