"""Reading tables of notes against Python's csv module, with the memory that a stream of notes needs.

    python benchmarks/sources.py [--notes 4000] [--json]

Times are CPU seconds, medians of interleaved runs. The notes are made up: 1,500 words each, a line break every ten.
"""

import argparse
import csv
import gzip
import json
import random
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from plant.data.sources import checked, open_source

RUNS = 5


def write_notes(path: Path, count: int) -> None:
    """A table of notes with line breaks and quotes inside of their texts."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 10))) for _ in range(5000)]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["id", "text", "labels", "split", "group"])
        for number in range(count):
            lines = [" ".join(rng.choices(words, k=10)) for _ in range(149)]
            text = "\n".join([*lines, 'He said "no pain".'])
            table.writerow([f"note {number}", text, "401.9;428.0;V45.81", "train", f"patient {number // 2}"])


def by_csv_module(path: Path) -> int:
    """The same columns, read line by line."""
    csv.field_size_limit(50_000_000)
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file, strict=True)
        return sum(len((row["id"], row["text"], row["labels"].split(";"))) > 0 for row in rows)


def by_plant(path: Path) -> int:
    """The notes of a file, checked."""
    return sum(1 for _ in checked(open_source(str(path)).notes()))


def seconds(work: Callable[[], int]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(count: int) -> dict[str, dict[str, float]]:
    """CPU seconds and ratios; all files hold the same notes."""
    with TemporaryDirectory() as folder:
        plain = Path(folder) / "notes.csv"
        write_notes(plain, count)
        packed = plain.with_suffix(".csv.gz")
        with plain.open("rb") as content, gzip.open(packed, "wb", compresslevel=3) as file:
            shutil.copyfileobj(content, file)
        work = {"csv": lambda: by_csv_module(plain), "plant": lambda: by_plant(plain), "gz": lambda: by_plant(packed)}
        runs = [{name: seconds(task) for name, task in work.items()} for _ in range(RUNS)]
        megabytes = plain.stat().st_size / 1e6
    median = {name: statistics.median(run[name] for run in runs) for name in work}
    return {
        "csv_notes": {
            "ratio": median["csv"] / median["plant"],
            "megabytes_per_second": megabytes / median["plant"],
            "reference_megabytes_per_second": megabytes / median["csv"],
            "gzipped_megabytes_per_second": megabytes / median["gz"],
            "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=4000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    measured = measure(arguments.notes)
    if arguments.json:
        print(json.dumps(measured))
        return
    for name, value in measured["csv_notes"].items():
        print(f"{name:35} {value:10,.1f}")


if __name__ == "__main__":
    main()
