"""Preparing a MIMIC-shaped set: notes per second and peak memory against pandas and a regular expression.

    python benchmarks/prepare.py [--notes 10000] [--json]        docs/results.md has the figures of --notes 50000

Both read the same NOTEEVENTS and DIAGNOSES_ICD files, find words, count a vocabulary on the training notes and number
every token and label. Each runs in a process of its own; time is CPU time.
"""

import argparse
import csv
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

WORDS, DISTINCT, CODES = 1_500, 60_000, 3_000


def write_mimic(folder: Path, notes: int) -> None:
    """Discharge summaries of 1,500 words with line breaks and quotes, and their diagnoses, in MIMIC-III's schema."""
    random = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfw"))
    words = np.array(["".join(letters[random.integers(0, 16, size)]) for size in random.integers(2, 11, DISTINCT)])
    header = [
        "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY", "DESCRIPTION", "CGID",
        "ISERROR", "TEXT",
    ]  # fmt: skip
    with (folder / "NOTEEVENTS.csv").open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(header)
        for number in range(notes):
            drawn = words[(random.zipf(1.3, WORDS) - 1) % DISTINCT]
            text = "\n".join(" ".join(drawn[first : first + 12]) for first in range(0, WORDS, 12))
            row = [
                number,
                number // 2,
                number,
                "2101-01-01",
                "",
                "",
                "Discharge summary",
                "Report",
                "",
                "",
                f'"{text}"',
            ]
            writer.writerow(row)
    with (folder / "DIAGNOSES_ICD.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ROW_ID", "SUBJECT_ID", "HADM_ID", "SEQ_NUM", "ICD9_CODE"])
        for number in range(notes):
            for place, code in enumerate(random.choice(CODES, 10, replace=False)):
                writer.writerow([number * 10 + place, number // 2, number, place, f"{10_000 + code}"])
    (folder / "PROCEDURES_ICD.csv").write_text("ROW_ID,SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n")


def prepare_plainly(folder: Path) -> tuple[int, int]:
    """How a notebook does it: data frames, a regular expression, dictionaries."""
    import pandas

    notes = pandas.read_csv(folder / "NOTEEVENTS.csv")
    codes = pandas.read_csv(folder / "DIAGNOSES_ICD.csv", dtype={"ICD9_CODE": str})
    labels = codes.groupby("HADM_ID")["ICD9_CODE"].apply(list)
    tokens = notes["TEXT"].str.lower().str.findall(r"[^\W_]+")
    tokens = tokens.apply(lambda row: [word for word in row if not word.isdigit()])
    train = notes["SUBJECT_ID"] % 10 < 8
    counts = Counter(word for row in tokens[train] for word in row)
    vocab = {word: number + 2 for number, (word, count) in enumerate(counts.most_common(60_000)) if count >= 3}
    numbers = tokens.apply(lambda row: np.array([vocab.get(word, 1) for word in row], np.int32))
    word = re.compile(r"[^\W_]+")
    spans = notes["TEXT"].apply(lambda text: np.array([match.span() for match in word.finditer(text)], np.int32))
    return int(numbers.map(len).sum()), len(labels) + len(spans) - len(notes)


def prepare_ours(folder: Path) -> tuple[int, int]:
    """`plant prepare`."""
    from plant.recipe.schema import Recipe
    from plant.steps.prepare import Request, prepare_once

    with tempfile.TemporaryDirectory(dir=folder) as out:
        made = prepare_once(Request(str(folder)), Path(out) / "corpus", Recipe())
    return made.manifest.facts["tokens"], sum(made.manifest.facts["notes"].values())


WAYS = {"plain": prepare_plainly, "ours": prepare_ours}


def measure(way: str, folder: Path) -> dict[str, float]:
    """CPU seconds, peak memory and tokens of one way, in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--folder", str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        started = time.process_time()
        tokens, notes = WAYS[arguments.way](Path(arguments.folder))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps({"seconds": time.process_time() - started, "peak_gb": peak, "tokens": tokens, "notes": notes}))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_mimic(Path(folder), arguments.notes)
        found = {way: measure(way, Path(folder)) for way in WAYS}
    for row in found.values():
        row["notes_per_second"] = row["notes"] / row["seconds"]
    report(found, as_json=arguments.json)


def report(found: dict[str, dict[str, float]], *, as_json: bool) -> None:
    """One object, or a table."""
    ratio = found["plain"]["seconds"] / found["ours"]["seconds"]
    if as_json:
        print(
            json.dumps(
                {"prepare": {"ratio": ratio, **{f"{way}_{k}": v for way, r in found.items() for k, v in r.items()}}}
            )
        )
        return
    print(f"{'way':8} {'notes/s':>9} {'CPU s':>8} {'peak GB':>8} {'tokens':>12}")
    for way, row in found.items():
        print(
            f"{way:8} {row['notes_per_second']:9.0f} {row['seconds']:8.1f} {row['peak_gb']:8.2f} {row['tokens']:12,.0f}"
        )
    print(f"ours is {ratio:.1f} times as fast")


if __name__ == "__main__":
    main()
