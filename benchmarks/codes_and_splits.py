"""Normalising codes against doing it one by one, and stratified splits against the published loop and random splits.

    python benchmarks/codes_and_splits.py [--json]

Times are CPU seconds. The plain loop runs on a smaller set of notes, on which ours is timed too.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.codes.icd import normalise_all
from plant.codes.lists import titles
from plant.codes.systems import normal_form
from plant.data.splits import random_split, stratified_split

SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}
BINS = ((1, 1), (2, 4), (5, 9), (10, 49), (50, 499), (500, 10**9))
Notes = tuple[list[str], list[str], list[list[int]]]


def made_up(n: int, n_labels: int, *, patients: int, seed: int = 0) -> Notes:
    """Ids, patients and labels with a long tail of rare ones."""
    random = np.random.default_rng(seed)
    chances = 1 / np.arange(1, n_labels + 1) ** 1.1
    drawn = random.choice(n_labels, size=(n, 15), p=chances / chances.sum())
    groups = [f"patient {number}" for number in random.integers(0, patients, n)] if patients else [""] * n
    return [str(number) for number in range(n)], groups, [sorted(set(row)) for row in drawn.tolist()]


def plain_stratified(labels: list[list[int]]) -> list[int]:
    """Iterative stratification as published, notes instead of patients, counting anew for every label."""
    total, shares = Counter(label for of_note in labels for label in of_note), list(SHARES.values())
    wanted = {label: [share * count for share in shares] for label, count in total.items()}
    room = [share * len(labels) for share in shares]
    split = [-1] * len(labels)
    while left := Counter(label for part, of_note in zip(split, labels, strict=True) if part < 0 for label in of_note):
        rarest = min(left, key=lambda label: left[label])
        for note, of_note in enumerate(labels):
            if split[note] < 0 and rarest in of_note:
                split[note] = chosen = max(range(len(room)), key=lambda part: (wanted[rarest][part], room[part]))
                room[chosen] -= 1
                for label in of_note:
                    wanted[label][chosen] -= 1
    return split


def distances(split: NDArray[np.int8], labels: list[list[int]]) -> list[float]:
    """Per bin of label frequency, the mean distance of the share in dev from its target."""
    flat, part = np.concatenate(labels), np.repeat(split, [len(of_note) for of_note in labels])
    total = np.bincount(flat)
    dev = np.bincount(flat[part == 1], minlength=len(total))
    inside = [(total >= least) & (total <= most) for least, most in BINS]
    return [float(np.abs(dev[chosen] / total[chosen] - SHARES["dev"]).mean()) for chosen in inside]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and the result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def normalising() -> dict[str, float]:
    """Ten million codes by `normalise_all`, a million one by one."""
    codes = list(titles("icd9-diagnosis")) * 700
    few = codes[:1_000_000]
    ours, _ = timed(lambda: normalise_all(codes, "icd9-diagnosis"))
    plain, _ = timed(lambda: [normal_form(code, "icd9-diagnosis") for code in few])
    return {"codes": len(codes), "seconds": ours, "ratio": plain / len(few) / (ours / len(codes))}


def stratifying() -> dict[str, Any]:
    """Speed against the plain loop, and balance at the size of MIMIC."""
    small = made_up(3_000, 900, patients=0)
    ours, _ = timed(lambda: stratified_split(*small, SHARES, seed=1))
    plain, _ = timed(lambda: plain_stratified(small[2]))
    ids, groups, labels = made_up(50_000, 8_929, patients=40_000)
    seconds, split = timed(lambda: stratified_split(ids, groups, labels, SHARES, seed=1))
    balance = {
        "random": distances(random_split(ids, groups, SHARES, seed=1), labels),
        "stratified": distances(split, labels),
    }
    return {"ratio": plain / ours, "seconds": seconds, "distance": balance}


def main() -> None:
    """Measure, then print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = {"normalise": normalising(), "stratified_split": stratifying()}
    if arguments.json:
        print(json.dumps(figures))
        return
    codes, splits = figures["normalise"], figures["stratified_split"]
    print(f"normalise_all    {codes['codes']:,} codes  {codes['seconds']:.2f} s  {codes['ratio']:.1f}x one by one")
    print(f"stratified_split  50,000 notes x 8,929 labels  {splits['seconds']:.2f} s")
    print(f"                  3,000 notes x 900 labels  {splits['ratio']:.1f}x the plain loop")
    print("mean distance of a label's share in dev from 0.1, by number of notes with the label")
    for place, (least, most) in enumerate(BINS):
        name = str(least) if least == most else f"{least}-{most}" if most < 10**9 else f"{least} and more"
        row = [f"{kind} {splits['distance'][kind][place]:.3f}" for kind in splits["distance"]]
        print(f"  {name:12s} {'   '.join(row)}")


if __name__ == "__main__":
    main()
