"""Interaction matching against a loop over labels: all names of a code book searched in one long note.

    python benchmarks/interaction.py [--labels 8929] [--tokens 1500] [--json]

The loop is what one would write first: for each label the cosines of its words and the note's tokens, added up along
the diagonal. Times are CPU seconds on one thread, medians of interleaved runs; the note and the names are made up, word
frequencies fall as 1 / rank. `ratio` is the search with the settings of the recipe (similarities below 0.8 count as 0,
scores below 0.6 as no match), `ratio_everything` the search that keeps all scores, as printed in the paper.
`epochs`: training steps on a batch of notes, with the names found in an epoch before kept against searched again.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from plant.nn.decoders.interaction import Interaction
from plant.nn.matching.names import Names
from plant.store.ragged import offsets
from plant.tensors import Encoded

VOCAB, SIZE, RUNS, NOTES = 20_000, 128, 3, 8
EVERYTHING = {"form": "sigmoid", "slack": 0, "threshold": -1.0, "least": -1.0, "longest": False}


def drawn_words(random: np.random.Generator, count: int) -> NDArray[np.int32]:
    shares = 1 / np.arange(1, VOCAB - 1)
    return (2 + random.choice(VOCAB - 2, count, p=shares / shares.sum())).astype(np.int32)


def made_up_names(n_labels: int) -> Names:
    """One name of 2 to 8 words for each label."""
    random = np.random.default_rng(1)
    lengths = random.integers(2, 9, n_labels)
    return Names(
        words=drawn_words(random, int(lengths.sum())),
        starts=offsets(lengths),
        labels=np.arange(n_labels, dtype=np.int32),
        support=np.zeros(n_labels, np.int32),
        log_odds=np.zeros(n_labels, np.float32),
        n_trained=n_labels,
        n_labels=n_labels,
        n_words=VOCAB,
    )


def label_loop(unit: NDArray[np.float32], names: Names, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
    """The best mean cosine of each label's words along a diagonal of the note."""
    scores = np.empty(len(names), np.float32)
    for label in range(len(names)):
        words = names.words[names.starts[label] : names.starts[label + 1]]
        cosines = unit[words] @ unit[tokens].T
        padded = np.pad(cosines, ((0, 0), (len(words) - 1, len(words) - 1)))
        starts = len(tokens) + len(words) - 1
        total = sum(padded[word, word : word + starts] for word in range(len(words)))
        scores[label] = total.max() / len(words)
    return scores


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(n_labels: int, n_tokens: int) -> dict[str, dict[str, float]]:
    torch.manual_seed(1)
    names = made_up_names(n_labels)
    tokens = drawn_words(np.random.default_rng(2), n_tokens).astype(np.int64)
    row = torch.from_numpy(tokens)[None]
    encoded = Encoded(torch.zeros(1, n_tokens, 1), row, torch.ones_like(row, dtype=torch.bool))
    sparse = Interaction(VOCAB, n_labels, names=names, size=SIZE).eval()
    everything = Interaction(VOCAB, n_labels, names=names, word_vectors=sparse.words, **EVERYTHING).eval()
    unit = torch.nn.functional.normalize(sparse.words, dim=1).numpy()

    def searched() -> None:
        sparse._kept.forget()  # or names found a moment ago would not be searched
        sparse(encoded)

    work = {
        "loop": lambda: label_loop(unit, names, tokens),
        "sparse": searched,
        "everything": lambda: everything(encoded),
    }
    with torch.no_grad():
        gap = np.abs(everything(encoded).logits[0].numpy() - work["loop"]()).max()
        sparse(encoded)
        runs = [{name: seconds(task) for name, task in work.items()} for _ in range(RUNS)]
    median = {name: statistics.median(run[name] for run in runs) for name in work}
    return {
        "interaction": {
            "ratio": median["loop"] / median["sparse"],
            "ratio_everything": median["loop"] / median["everything"],
            "milliseconds": 1000 * median["sparse"],
            "milliseconds_everything": 1000 * median["everything"],
            "reference_milliseconds": 1000 * median["loop"],
            "largest_difference": float(gap),
        }
    }


def epochs(n_labels: int, n_tokens: int) -> dict[str, float]:
    """Milliseconds a note of a step, forward and backward: as in the first epoch, and as in those after it."""
    torch.manual_seed(1)
    model = Interaction(VOCAB, n_labels, names=made_up_names(n_labels), size=SIZE).train()
    tokens = torch.from_numpy(drawn_words(np.random.default_rng(3), NOTES * n_tokens).astype(np.int64))
    rows = tokens.view(NOTES, n_tokens)
    encoded = Encoded(torch.zeros(NOTES, n_tokens, 1), rows, torch.ones_like(rows, dtype=torch.bool))
    targets = (torch.rand(NOTES, n_labels) < 0.002).float()

    def step() -> None:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(encoded).logits, targets)
        loss.backward()
        model.zero_grad()

    def search_again() -> None:
        model._kept.forget()
        step()

    work = {"searched": search_again, "kept": step}
    runs = [{name: seconds(task) for name, task in work.items()} for _ in range(1 + RUNS)][1:]
    first, later = (1000 * statistics.median(run[name] for run in runs) / NOTES for name in work)
    return {"ratio": first / later, "milliseconds_first": first, "milliseconds_later": later}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=8929)
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measured = measure(arguments.labels, arguments.tokens)
    measured["interaction_epochs"] = epochs(arguments.labels, arguments.tokens)
    if arguments.json:
        print(json.dumps(measured))
        return
    for part, values in measured.items():
        for name, value in values.items():
            print(f"{part:20} {name:30} {value:12,.6g}")


if __name__ == "__main__":
    main()
