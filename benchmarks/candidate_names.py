"""How well wordings that nobody has marked are named: the first candidate, the right code among all, and cost.

    python benchmarks/candidate_names.py CORPORA/cantemist --system icdo3 --report dev1 \\
        --book CORPORA/cantemist/icdo3_catalogue.tsv --columns description_es,description_en,synonyms_en [--json]
    python benchmarks/candidate_names.py CORPORA/codiesp_d --system icd10cm --folds 5 \\
        --book CORPORA/codiesp_d/labels.tsv --columns description_es,description --fitted-codes [--json]
    python benchmarks/candidate_names.py CORPORA/codiesp_d --system icd10cm --folds 5 --book icd10cm [--json]

Fitted on `train.jsonl`, or on all of it but a fold. Counted are distinct wordings of the reported notes that no fitted
note has, folded; the right code of one is the code it was marked with most. `first` is the candidate with the largest
product of the probabilities of its parts, `nearest` the one with the nearest name. Times are CPU times.
"""

import argparse
import csv
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plant.candidates.name_features import NAME_FEATURES
from plant.candidates.names import Namer, fit_namer
from plant.candidates.suggesting import code_of, read_names
from plant.candidates.wording import Wording
from plant.candidates.words import stemmer, words_of
from plant.codes.lists import titles
from plant.codes.systems import SYSTEMS

Book = Mapping[str, Sequence[Wording]]
Marks = Mapping[Wording, Counter[str]]


@dataclass(frozen=True)
class Counted:
    """Sums over distinct wordings, and CPU seconds."""

    wordings: int
    first: int
    nearest: int
    among: int
    unseen: int  # whose code no fitted note has
    unseen_among: int
    candidates: int
    read: float
    fit: float


def worded(text: str, stem: Callable[[str], str]) -> Wording:
    words = words_of(text, stem)
    return words.folded, words.stems


def marked(notes: Sequence[dict[str, Any]], stem: Callable[[str], str]) -> Marks:
    found: dict[Wording, Counter[str]] = {}
    for mark in (mark for note in notes for mark in note["evidence"]):
        found.setdefault(worded(mark["text"], stem), Counter())[mark["label"]] += 1
    return found


def book_of(path: str, columns: Sequence[str], stem: Callable[[str], str]) -> Book:
    """The names of a table's columns, several in a cell between '|'; or the packaged ICD-10-CM, in English."""
    if path == "icd10cm":
        return packaged(stemmer("english"))
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    names = {row["code"]: [name for column in columns for name in row[column].split("|") if name] for row in rows}
    return {code: [worded(name, stem) for name in dict.fromkeys(given)] for code, given in names.items()}


def packaged(stem: Callable[[str], str]) -> Book:
    system = SYSTEMS["icd10cm"]
    complete = [system.rewrite(code) for code in titles("icd10cm")]
    codes = dict.fromkeys([*(code[:3] for code in complete), *(code[:5] for code in complete), *complete])
    names = {code: [name for name in system.names(code) if name] for code in codes}
    return {code: [worded(name, stem) for name in given] for code, given in names.items() if given}


def measured(fitted: Sequence[dict[str, Any]], reported: Marks, book: Book, given: argparse.Namespace) -> Counted:
    """A namer of the fitted notes on the reported wordings."""
    marks = marked(fitted, stemmer(given.language))
    notes = Counter(code for note in fitted for code in set(note["labels"]))
    known = {code: names for code, names in book.items() if code in notes} if given.fitted_codes else book
    start = time.process_time()
    namer = fit_namer(marks, known, notes, system=given.system)
    fit = time.process_time() - start
    seen = {folded for folded, _ in marks}
    new = [wording for wording in sorted(reported) if wording[0] not in seen]
    gold = [min(reported[wording].items(), key=lambda item: (-item[1], item[0]))[0] for wording in new]
    read_names(namer, new[:1])  # what is compiled or made at first use is no cost of a wording
    return counted(namer, new, gold, set(notes), fit)


def counted(namer: Namer, new: Sequence[Wording], gold: Sequence[str], seen: set[str], fit: float) -> Counted:
    start = time.process_time()
    found = read_names(namer, new)
    read = time.process_time() - start
    rows = zip(found.span.tolist(), found.code.tolist(), strict=True)
    right = np.array([code_of(namer, found, code) == gold[span] for span, code in rows])
    among = np.bincount(found.span, right, minlength=len(new)) > 0
    unseen = np.array([code not in seen for code in gold])
    first, nearest = (right_at_best(found.span, found.features[:, NAME_FEATURES.index(name)], right) for name in RANKED)
    return Counted(
        wordings=len(new), first=first, nearest=nearest, among=int(among.sum()), unseen=int(unseen.sum()),
        unseen_among=int((among & unseen).sum()), candidates=len(found), read=read, fit=fit,
    )  # fmt: skip


RANKED = ("product", "cosine")


def right_at_best(span: np.ndarray, score: np.ndarray, right: np.ndarray) -> int:
    """How many spans have a right code as their best; the first of equal ones counts."""
    order = np.lexsort((np.arange(len(span)), -score, span))
    best = order[np.unique(span[order], return_index=True)[1]]
    return int(right[best].sum())


def table(rows: Sequence[Counted]) -> dict[str, float]:
    """Shares and means over all rows."""
    sums = {name: sum(getattr(row, name) for row in rows) for name in Counted.__dataclass_fields__}
    shares = {name: sums[name] / sums["wordings"] for name in ("first", "nearest", "among", "candidates")}
    return {
        "wordings": sums["wordings"], **shares, "unseen codes": sums["unseen"],
        "unseen among": sums["unseen_among"] / max(sums["unseen"], 1),
        "ms": 1e3 * sums["read"] / sums["wordings"], "fit s": sums["fit"] / len(rows),
    }  # fmt: skip


def read_notes(path: Path) -> list[dict[str, Any]]:
    return sorted((json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()), key=lambda n: n["id"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--system", default="other")
    parser.add_argument("--language", default="spanish")
    parser.add_argument("--report", default="")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--book", default="")
    parser.add_argument("--columns", default="")
    parser.add_argument("--fitted-codes", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.corpus is None:
        print("needs a folder of a corpus; see --help", file=sys.stderr)
        return
    stem = stemmer(given.language)
    fitted = read_notes(given.corpus / "train.jsonl")
    book = book_of(given.book, given.columns.split(","), stem) if given.book else {}
    if given.report:
        rows = [measured(fitted, marked(read_notes(given.corpus / f"{given.report}.jsonl"), stem), book, given)]
    else:
        parts = [([n for i, n in enumerate(fitted) if i % given.folds != k], fitted[k :: given.folds])
                 for k in range(given.folds)]  # fmt: skip
        rows = [measured(others, marked(held, stem), book, given) for others, held in parts]
    found = table(rows)
    print(json.dumps(found) if given.json else "\n".join(f"{name:14} {value:.4g}" for name, value in found.items()))


if __name__ == "__main__":
    main()
