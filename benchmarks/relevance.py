"""Mutual information, LambdaRank and ranker scores against the plain ways of computing the same, in one run.

    python benchmarks/relevance.py [--json]

CPU seconds of one thread; memory is the peak of a whole process of its own, made-up notes included. The plain ways
would take from minutes to hours and many gigabytes, so each is timed on a stated part of the work and multiplied:

- mutual information: dense label x token products of batches of documents, four cells of the table, as the public
  code of the paper does it; timed for 256 labels and 2,048 documents. `one_cell` is the thriftier dense way: one
  product, the other cells from the marginals.
- LambdaRank: all pairs of one label's tokens as matrices, whole, at n = 2,000.
- scores: the concatenated pair tensor through the two layers, for an eighth of the labels.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
from numpy.typing import NDArray

DOCUMENTS, WORDS, TOKENS, LABELS, MANY_LABELS = 50_000, 450, 60_000, 8_929, 170_000
LABELS_PER_DOCUMENT, KEEP = 15, 1000
PART_LABELS, PART_DOCUMENTS, BATCH = 256, 2_048, 32
PAIR_TOKENS, LABELS_PER_STEP, K = 2_000, 64, 15
DISTINCT, SIZE, HIDDEN, SHARE = 400, 128, 128, 8


def made_up(n_labels: int, *, n_documents: int = DOCUMENTS, seed: int = 0) -> Any:
    """A training view of made-up notes: frequent and rare words, every label in at least one note."""
    from plant.codes.codebook import CodeBook
    from plant.data.corpus import Documents, TrainingView
    from plant.store.ragged import offsets
    from plant.text.vocab import Vocab

    random = np.random.default_rng(seed)
    chances = np.cumsum(1 / np.arange(1, TOKENS - 1) ** 0.9)
    chances /= chances[-1]
    tokens, starts = np.empty(n_documents * WORDS, np.int32), np.zeros(n_documents + 1, np.int64)
    for row in range(n_documents):
        found = _distinct(np.searchsorted(chances, random.random(2 * WORDS)) + 2)
        starts[row + 1] = starts[row] + len(found)
        tokens[starts[row] : starts[row + 1]] = found
    popular = np.cumsum(1 / np.arange(1, n_labels + 1) ** 0.8)
    labels = np.searchsorted(popular / popular[-1], random.random((n_documents, LABELS_PER_DOCUMENT)))
    labels.flat[:n_labels] = random.permutation(n_labels)[: labels.size]
    labels = np.sort(labels, axis=1).astype(np.int32)
    new = np.diff(labels, axis=1, prepend=-1) > 0
    nothing, none = np.zeros(n_documents + 1, np.int64), np.empty(0, np.int32)
    documents = Documents(
        ids=("",) * n_documents, tokens=tokens[: starts[-1]], token_starts=starts,
        labels=labels[new], label_starts=offsets(new.sum(1)),
        char_starts=none, char_ends=none, evidence_labels=none, evidence_spans=none.reshape(0, 2),
        evidence_starts=nothing, text=np.empty(0, np.uint8), text_starts=nothing,
    )  # fmt: skip
    codes = tuple(str(label) for label in range(n_labels))
    return TrainingView(Vocab(tuple(str(token) for token in range(TOKENS))), CodeBook("other", codes), codes, documents)


def _distinct(tokens: NDArray[np.int64]) -> NDArray[np.int32]:
    """The first distinct tokens, as many as a note has."""
    found, first = np.unique(tokens, return_index=True)
    return found[np.argsort(first)][:WORDS].astype(np.int32)


def seconds(work: Callable[[], object], *, repeats: int = 3) -> float:
    """Median CPU seconds, after a first call that compiles."""
    times = []
    for _ in range(repeats + 1):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return float(np.median(times[1:]))


def relate_alone(n_labels: int, form: str) -> dict[str, float]:
    """CPU seconds and peak memory of `relate` in a process of its own."""
    command = [sys.executable, __file__, "--relate", str(n_labels), form]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def relate_here(n_labels: int, form: str) -> dict[str, float]:
    """`relate` on made-up notes; kernels are compiled on a few notes first."""
    from plant.recipe.schema import Relate
    from plant.steps.relate import relate

    recipe = Relate(form=form, keep=KEEP)
    relate(made_up(20, n_documents=20), recipe, threads=1)
    view = made_up(n_labels)
    begun = time.process_time()
    relate(view, recipe, threads=1)
    used = time.process_time() - begun
    return {"seconds": used, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}


def dense_information(*, cells: int) -> float:
    """CPU seconds of the dense way for all documents and labels, from a part of both."""
    view = made_up(LABELS, n_documents=PART_DOCUMENTS)
    tables = [np.zeros((PART_LABELS, TOKENS), np.float32) for _ in range(cells)]

    def work() -> None:
        for first in range(0, PART_DOCUMENTS, BATCH):
            rows = range(first, min(first + BATCH, PART_DOCUMENTS))
            has_token, has_label = (
                np.zeros((len(rows), TOKENS), np.float32),
                np.zeros((len(rows), PART_LABELS), np.float32),
            )
            for place, row in enumerate(rows):
                labels = view.documents.labels_of(row)
                has_token[place, view.documents.tokens_of(row)] = 1
                has_label[place, labels[labels < PART_LABELS]] = 1
            for number, table in enumerate(tables):
                left, right = (1 - has_label if number & 1 else has_label), (1 - has_token if number & 2 else has_token)
                table += left.T @ right

    return seconds(work, repeats=1) * (DOCUMENTS / PART_DOCUMENTS) * (LABELS / PART_LABELS)


def mutual_information() -> dict[str, float]:
    """Our way against both dense ways, and our way for many labels."""
    ours, many = relate_alone(LABELS, "mi"), relate_alone(MANY_LABELS, "mi")
    four, one = dense_information(cells=4), dense_information(cells=1)
    return {
        "ratio": four / ours["seconds"],
        "one_cell_ratio": one / ours["seconds"],
        "seconds": ours["seconds"],
        "dense_seconds": four,
        "peak_gb": ours["peak_gb"],
        "dense_gb": 4 * 4 * LABELS * TOKENS / 1e9,
        "many_labels_seconds": many["seconds"],
        "many_labels_peak_gb": many["peak_gb"],
    }


def all_pairs(scores: NDArray[np.float64], gain: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """LambdaRank's gradient from n x n matrices."""
    place = np.argsort(np.argsort(-scores, kind="stable"))
    discount = np.where(place < k, 1 / np.log2(place + 2), 0)
    ideal = (np.sort(gain)[::-1][:k] / np.log2(np.arange(k) + 2)).sum()
    change = np.abs((gain[:, None] - gain) * (discount[:, None] - discount)) / ideal
    push = np.where(gain[:, None] > gain, change / (1 + np.exp(scores[:, None] - scores)), 0)
    return push.sum(0) - push.sum(1)


def lambdarank_step() -> dict[str, float]:
    """One label against all pairs; then 64 labels over a whole vocabulary, alone and as a step of training."""
    import torch

    from plant.nn.planting.lambdarank import lambdarank
    from plant.nn.planting.ranker import BilinearRanker

    random = np.random.default_rng(0)
    scores = random.normal(size=(1, PAIR_TOKENS)).astype(np.float32)
    tokens, gains = (
        random.permutation(PAIR_TOKENS)[None, :KEEP].astype(np.uint16),
        KEEP / np.arange(1.0, KEEP + 1)[None],
    )
    gain = np.zeros(PAIR_TOKENS)
    gain[tokens[0]] = gains[0]
    naive = seconds(lambda: all_pairs(scores[0].astype(np.float64), gain, K))
    ours = seconds(lambda: [lambdarank(scores, tokens, gains, k=K) for _ in range(100)]) / 100
    error = np.abs(
        lambdarank(scores, tokens, gains, k=K).gradients[0] - all_pairs(scores[0].astype(np.float64), gain, K)
    )
    wide = np.array([random.permutation(TOKENS)[:KEEP] for _ in range(LABELS_PER_STEP)], dtype=np.uint16)
    wide_gains = np.repeat(gains, LABELS_PER_STEP, axis=0)
    ranker = BilinearRanker(TOKENS, LABELS, size=SIZE)
    optimizer = torch.optim.AdamW(ranker.parameters(), lr=0.1)
    every, labels = torch.arange(TOKENS), torch.arange(LABELS_PER_STEP)

    def step() -> None:
        found = ranker.scores(every, labels)
        optimizer.zero_grad()
        found.backward(torch.from_numpy(lambdarank(found.detach().numpy(), wide, wide_gains, k=K).gradients))
        optimizer.step()

    alone = ranker.scores(every, labels).detach().numpy()
    return {
        "ratio": naive / ours,
        "largest_error": float(error.max()),
        "all_pairs_seconds": naive,
        "seconds": ours,
        "vocabulary_seconds": seconds(lambda: lambdarank(alone, wide, wide_gains, k=K)),
        "vocabulary_k100_seconds": seconds(lambda: lambdarank(alone, wide, wide_gains, k=100)),
        "training_step_seconds": seconds(step),
    }


def document_scores() -> dict[str, float]:
    """Scores of a document's distinct tokens for all labels, both forms, against concatenated pairs."""
    import torch

    from plant.nn.planting.ranker import BilinearRanker, TwoLayerRanker

    ranker, bilinear = (
        TwoLayerRanker(TOKENS, LABELS, size=SIZE, hidden=HIDDEN),
        BilinearRanker(TOKENS, LABELS, size=SIZE),
    )
    tokens, labels = torch.randperm(TOKENS)[:DISTINCT], torch.arange(LABELS)
    part = labels[: LABELS // SHARE]
    weights = torch.cat([ranker.label_layer, ranker.token_layer], dim=1)

    def concatenated() -> torch.Tensor:
        of_labels = ranker.label_vectors[part].unsqueeze(1).expand(-1, DISTINCT, -1)
        of_tokens = ranker.token_vectors[tokens].unsqueeze(0).expand(len(part), -1, -1)
        hidden = (torch.cat([of_labels, of_tokens], dim=2) @ weights.T + ranker.hidden_bias).relu()
        return hidden @ ranker.output + ranker.output_bias

    with torch.no_grad():
        plain = seconds(concatenated) * LABELS / len(part)
        ours = seconds(lambda: ranker.scores(tokens, labels))
        error = float((concatenated() - ranker.scores(tokens, part)).abs().max())
        return {
            "ratio": plain / ours,
            "largest_error": error,
            "concatenated_seconds": plain,
            "seconds": ours,
            "bilinear_seconds": seconds(lambda: bilinear.scores(tokens, labels)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--relate", nargs=2, metavar=("LABELS", "FORM"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.relate:
        print(json.dumps(relate_here(int(arguments.relate[0]), arguments.relate[1])))
        return
    found = {"mutual_information": mutual_information(), "lambdarank": lambdarank_step(), "scores": document_scores()}
    if arguments.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        print(name)
        for key, value in figures.items():
            print(f"    {key:26} {value:12.4g}")


if __name__ == "__main__":
    main()
