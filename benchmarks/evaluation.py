"""All measures against scikit-learn, the list path at 170,000 labels, and the randomisation test against a plain loop.

    python benchmarks/evaluation.py [--json] [--full]

scikit-learn needs many minutes for the whole matrix. By default its document-wise measures run on a tenth of the
documents and its per-label areas on one label in twenty, and their times are multiplied; sorting makes the true times
longer, never shorter. `--full` runs everything. Times are CPU seconds.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.measures.table import measure, measures_for
from plant.evaluate.scores.outcome import Outcome, outcome_of
from plant.evaluate.scores.scored import Frame, Scored, scored_by_lists, scored_densely
from plant.evaluate.significance.resampling import randomisation
from plant.steps.evaluate import Settings, evaluate

DOCUMENTS, LABELS, CODES_PER_DOCUMENT = 20_000, 8_929, 15
MANY_DOCUMENTS, MANY_LABELS, LISTED = 100_000, 170_000, 50
ROUNDS = 10_000


def made_up(documents: int, labels: int, *, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Probabilities and targets with a long tail of rare labels."""
    random = np.random.default_rng(seed)
    chances = 1 / np.arange(1, labels + 1) ** 0.9
    chances = np.minimum(0.8, chances * CODES_PER_DOCUMENT / chances.sum()).astype(np.float32)
    targets = random.random((documents, labels), dtype=np.float32) < chances
    scores = random.standard_normal((documents, labels), dtype=np.float32)
    scores += np.log(chances)
    scores += 3 * targets
    return 1 / (1 + np.exp(-scores)), targets


def scored(scores: NDArray[np.float32], targets: NDArray[np.bool_]) -> Scored:
    """The matrix as scored documents."""
    codes = [f"c{label}" for label in range(scores.shape[1])]
    return scored_densely(
        scores, ids=[str(row) for row in range(len(scores))], codes=codes, thresholds=0.5,
        gold=[[codes[label] for label in np.flatnonzero(row)] for row in targets],
        train_counts=targets.sum(axis=0), train_documents=len(scores),
    )  # fmt: skip


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and the result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def ours(sample: Scored) -> dict[str, float]:
    """Every measure that there is."""
    outcome = outcome_of(sample)
    return {m.name: m(outcome) for m in measures_for(outcome)}


def document_wise(scores: NDArray[np.float32], targets: NDArray[np.bool_]) -> dict[str, float]:
    """What scikit-learn has besides per-label areas, with as few calls as it allows."""
    from sklearn import metrics

    accepted = scores >= np.float32(0.5)
    found: dict[str, float] = {}
    present = np.flatnonzero(targets.any(axis=0))
    for average, labels in (("micro", None), ("macro", present)):
        precision, recall, f1, _ = metrics.precision_recall_fscore_support(
            targets, accepted, average=average, labels=labels, zero_division=0
        )
        found |= {f"{average}-P": precision, f"{average}-R": recall}
        found["micro-F1" if average == "micro" else "macro-F1 (mean of labels)"] = f1
    found["Jaccard"] = metrics.jaccard_score(targets, accepted, average="samples", zero_division=1)
    found["exact match"] = metrics.accuracy_score(targets, accepted)
    found["MAP"] = metrics.label_ranking_average_precision_score(targets, scores)
    found |= {f"nDCG@{k}": metrics.ndcg_score(targets, scores, k=k) for k in (5, 8, 15)}
    found["micro-AUC"] = metrics.roc_auc_score(targets, scores, average="micro")
    return found


def label_areas(
    scores: NDArray[np.float32], targets: NDArray[np.bool_], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """scikit-learn's area of each of some labels."""
    from sklearn.metrics import roc_auc_score

    return np.array([roc_auc_score(targets[:, label], scores[:, label]) for label in labels])


def against_scikit_learn(*, full: bool) -> dict[str, Any]:
    """Times of the whole, and the greatest difference on what both computed."""
    scores, targets = made_up(DOCUMENTS, LABELS)
    sample = scored(scores, targets)
    own_seconds, _ = timed(lambda: ours(sample))
    share, step = (1, 1) if full else (10, 20)
    rows = slice(0, DOCUMENTS // share)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, theirs = timed(lambda: document_wise(scores[rows], targets[rows]))
        present = np.flatnonzero(targets.any(axis=0))[::step]
        area_seconds, areas = timed(lambda: label_areas(scores, targets, present))
    part = ours(scored(scores[rows], targets[rows]))
    differences = [abs(part[name] - value) for name, value in theirs.items()]
    own_areas = outcome_of(sample).areas
    assert own_areas is not None
    differences.append(float(np.abs(own_areas.labels[present] - areas).max()))
    total = seconds * share + area_seconds * step
    return {
        "ratio": total / own_seconds, "seconds": own_seconds, "scikit_learn_seconds": total, "extrapolated": not full,
        "measures": len(part), "scikit_learn_measures": len(theirs) + 1, "greatest_difference": max(differences),
        "documents": DOCUMENTS, "labels": LABELS,
    }  # fmt: skip


def lists_alone() -> dict[str, float]:
    """All measures, bins and the prior of lists of 50 codes, and the peak memory of this whole process."""
    random = np.random.default_rng(0)
    listed = random.integers(0, MANY_LABELS, (MANY_DOCUMENTS, LISTED))
    listed = np.sort(listed, axis=1) + np.arange(LISTED)  # distinct within a document
    values = np.sort(random.random((MANY_DOCUMENTS, LISTED), dtype=np.float32), axis=1)[:, ::-1]
    n_labels = MANY_LABELS + LISTED
    codes = [f"c{label}" for label in range(n_labels)]
    right = random.random(listed.shape) < values * 0.4
    gold = [[codes[label] for label in row[mask]] or [codes[0]] for row, mask in zip(listed, right, strict=True)]
    begun = time.process_time()
    sample = scored_by_lists(
        listed, values, ids=[str(row) for row in range(MANY_DOCUMENTS)], codes=codes, gold=gold, thresholds=0.6,
        train_counts=random.integers(0, 1000, n_labels), train_documents=MANY_DOCUMENTS, frame=Frame(system="lists"),
    )  # fmt: skip
    evaluate(sample, Settings(rounds=100))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"peak_bytes": float(peak), "seconds": time.process_time() - begun}


def lists_in_a_process_of_their_own() -> dict[str, float]:
    """Memory against the dense matrix, which need not exist."""
    output = subprocess.run([sys.executable, __file__, "--lists-alone"], capture_output=True, check=True, text=True)
    found = json.loads(output.stdout)
    dense = 4 * MANY_DOCUMENTS * MANY_LABELS
    return {
        "ratio": dense / found["peak_bytes"], "peak_gb": found["peak_bytes"] / 1e9, "dense_gb": dense / 1e9,
        "seconds": found["seconds"], "documents": MANY_DOCUMENTS, "labels": MANY_LABELS, "listed": LISTED,
    }  # fmt: skip


def plain_randomisation(first: Outcome, second: Outcome, rounds: int) -> float:
    """The p-value of macro-F1 and of micro-F1 (the greater), one round at a time, each round counted afresh."""
    random = np.random.default_rng(0)
    systems = [
        (o.gold.documents, o.gold.labels, o.found, o.accepted.documents, o.accepted.labels) for o in (first, second)
    ]

    def counts(swap: NDArray[np.bool_]) -> NDArray[np.float64]:
        rows = np.zeros((3, first.n_labels))
        for system, mine in zip(systems, (~swap, swap), strict=True):
            documents, labels, found, accepted_documents, accepted_labels = system
            rows[0] += np.bincount(labels[found & mine[documents]], minlength=first.n_labels)
            rows[1] += np.bincount(accepted_labels[mine[accepted_documents]], minlength=first.n_labels)
            rows[2] += np.bincount(labels[mine[documents]], minlength=first.n_labels)
        return rows

    def values(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        total, present = rows.sum(axis=1), rows[2] > 0
        labels = 2 * rows[0][present] / (rows[1][present] + rows[2][present])
        return np.array([2 * total[0] / (total[1] + total[2]), labels.mean()])

    def difference(swap: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.abs(values(counts(swap)) - values(counts(~swap)))

    real = difference(np.zeros(len(first), bool))
    extreme = sum(difference(random.random(len(first)) < 0.5) >= real - 1e-12 for _ in range(rounds))
    return float(np.max((1 + extreme) / (1 + rounds)))


def randomisation_against_a_loop() -> dict[str, float]:
    """Micro- and macro-F1 on as many documents as MIMIC-III has for testing; the loop runs a tenth of the rounds."""
    scores, targets = made_up(3372, LABELS)
    noise = np.random.default_rng(1).normal(scale=0.02, size=scores.shape).astype(np.float32)
    first, second = (outcome_of(scored(values, targets), areas=False) for values in (scores, scores + noise))
    tested = [measure(name) for name in ("micro-F1", "macro-F1 (mean of labels)")]
    seconds, _ = timed(lambda: randomisation(first, second, tested, rounds=ROUNDS))
    plain, _ = timed(lambda: plain_randomisation(first, second, ROUNDS // 10))
    return {"ratio": 10 * plain / seconds, "seconds": seconds, "plain_seconds": 10 * plain, "rounds": ROUNDS}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true", help="run scikit-learn on everything: many minutes")
    parser.add_argument("--lists-alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lists_alone:
        print(json.dumps(lists_alone()))
        return
    results = {
        "evaluation": against_scikit_learn(full=arguments.full),
        "evaluation_lists": lists_in_a_process_of_their_own(),
        "randomisation": randomisation_against_a_loop(),
    }
    if arguments.json:
        print(json.dumps(results))
        return
    for name, row in results.items():
        print(f"\n{name}")
        for key, value in row.items():
            print(f"  {key:<24}{value:>14,.4g}" if isinstance(value, float) else f"  {key:<24}{value:>14,}")


if __name__ == "__main__":
    main()
