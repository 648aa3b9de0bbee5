"""What work on many processes and machines costs and gains, as ratios in one run.

    python benchmarks/scale.py [merge] [--json]      without a name, all of them

CPU seconds of all processes; wall time tells something only on a machine that does nothing else.

- merge: the counts of two shards of notes added by walking along their rows, against the sum by sorting that it
  replaced (`np.unique` over all pairs).
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

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


def cpu(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


PARTS: dict[str, Callable[[], dict[str, float]]] = {"merge": merge}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = {name: PARTS[name]() for name in arguments.parts}
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(name, *(f"{key} {value:,.3f}" for key, value in figures.items()), sep="\n    ")


if __name__ == "__main__":
    main()
