"""How far systems are apart, with intervals over notes, from the runs that were kept; as CSV.

    python docs/claim_intervals.py docs/results/runs/codiesp-d plant-cnn:plant-cnn-learned plant-cnn:tfidf

Notes are drawn anew with replacement a thousand times, the same for all runs of both systems; a value is the mean over
the runs. As in a report, the spread of what was drawn is laid around the real difference.
"""

import csv
import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.measures.table import MACRO_F1, measure
from plant.evaluate.scores.result import Result, result_from_json
from plant.evaluate.significance.samples import Weighted

MEASURES = ("MAP", "micro-F1", MACRO_F1, "P@5", "P@15")
ROUNDS = 1000


def runs_of(folder: Path, system: str) -> list[Result]:
    """The kept runs of a system, seed by seed."""
    paths = sorted(folder.glob(f"{system}-seed*.json.gz"))
    return [result_from_json(json.loads(gzip.decompress(path.read_bytes()))["told"]) for path in paths]


def drawn(runs: Sequence[Result], name: str, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """A measure of each draw of notes, the mean over runs."""
    return np.asarray(np.mean([measure(name).value(Weighted(run.outcome, weights)) for run in runs], axis=0))


def difference(first: Sequence[Result], second: Sequence[Result], name: str) -> str:
    """How far the first is ahead, and the ends of the 95 % interval of that."""
    notes = first[0].ids
    if any(run.ids != notes for run in (*first, *second)):
        raise SystemExit("the runs report different notes")
    draws = np.random.default_rng(0).multinomial(len(notes), np.full(len(notes), 1 / len(notes)), size=ROUNDS)
    apart = drawn(first, name, draws.astype(np.float64)) - drawn(second, name, draws.astype(np.float64))
    ahead, behind = (np.mean([measure(name)(run.outcome) for run in runs]) for runs in (first, second))
    low, high = ahead - behind + np.quantile(apart - apart.mean(), [0.025, 0.975])
    return f"{ahead - behind:+.3f} ({low:+.3f} to {high:+.3f})"


def main() -> None:
    folder, pairs = Path(sys.argv[1]), [pair.split(":") for pair in sys.argv[2:]]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["system", "less", *MEASURES])
    for names in pairs:
        first, second = (runs_of(folder, name) for name in names)
        writer.writerow([*names, *(difference(first, second, name) for name in MEASURES)])


if __name__ == "__main__":
    main()
