"""Gold codes and predictions in files, whoever wrote them, and the submissions of shared tasks."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.errors import InputError, quoted
from plant.evaluate.scores.forms import RankedLists
from plant.evaluate.scores.lists import Lists, taken
from plant.evaluate.scores.rows import identifier_of, is_table, json_rows, list_of, number_of, table_rows
from plant.evaluate.scores.scored import Frame, Scored, gold_lists
from plant.store.artifact import atomic_file
from plant.store.ragged import offsets

Task = Literal["cantemist", "codiesp"]


@dataclass(frozen=True)
class Listed:
    """One predicted code of a document; None where the file does not say."""

    document: str
    code: str
    score: float | None = None
    accepted: bool | None = None


@dataclass(frozen=True)
class PredictionFile:
    """The lists of a file, best first, documents numbered as `ids`; `remarks` say what had to be left out."""

    ids: tuple[str, ...]
    codes: tuple[str, ...]
    lists: Lists
    values: NDArray[np.float32] | None
    flags: NDArray[np.bool_] | None
    remarks: tuple[str, ...] = ()


@dataclass
class _Columns:
    """Growing flat columns: a million lists fit in memory as numbers, not as objects."""

    documents: dict[str, int] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    document: "array[int]" = field(default_factory=lambda: array("q"))
    label: "array[int]" = field(default_factory=lambda: array("i"))
    score: "array[float]" = field(default_factory=lambda: array("d"))
    flag: "array[int]" = field(default_factory=lambda: array("b"))

    def add(self, row: Listed) -> None:
        self.document.append(self.documents.setdefault(row.document, len(self.documents)))
        self.label.append(self.codes.setdefault(row.code, len(self.codes)))
        if row.score is not None:
            self.score.append(row.score)
        if row.accepted is not None:
            self.flag.append(row.accepted)


def read_gold(path: Path | str) -> dict[str, tuple[str, ...]]:
    """The codes of each document: JSON lines with `id` and `labels` or `codes`, or TSV `document code`."""
    path = Path(path)
    gold: dict[str, tuple[str, ...]] = {}
    if is_table(path):
        for _, (document, code, *_rest) in table_rows(path):
            gold[document] = (*gold.get(document, ()), code)
        return gold
    for number, row in json_rows(path):
        identifier = identifier_of(row, path, number)
        if identifier in gold:
            raise InputError(f"{path}, line {number}: a second note with the id {quoted(identifier)}")
        gold[identifier] = tuple(dict.fromkeys(_gold_codes(row, path, number)))
    return gold


def read_predictions(path: Path | str) -> PredictionFile:
    """Ranked codes: JSON lines as `plant predict` prints them, or TSV `document code [score]`.

    Scores rank where there are any, ties in the order given; without scores the order given ranks.
    """
    path = Path(path)
    columns = _Columns()
    for number, row in _listed(path, columns.documents):
        if row.score is not None and row.score != row.score:
            raise InputError(f"{path}, line {number}: the score is NaN: mend what wrote it")
        columns.add(row)
    return _prediction_file(columns, path)


def scored_from_files(
    gold: Mapping[str, Sequence[str]],
    predictions: PredictionFile,
    *,
    train: Mapping[str, Sequence[str]] | None = None,
    codebook: CodeBook | None = None,
    threshold: float | None = None,
    frame: Frame | None = None,
) -> Scored:
    """The gold documents with their predicted lists: a document without a list has an empty one.

    Accepted is what reaches the threshold, or else what the file says, or else every listed code.
    """
    ids = tuple(gold)
    counts = Counter(code for codes in (train or {}).values() for code in set(codes))
    codes = tuple(dict.fromkeys([*counts, *predictions.codes, *(code for row in gold.values() for code in row)]))
    lists, kept = _aligned(predictions, ids, codes)
    values = None if predictions.values is None else predictions.values[kept]
    flags, origin = _accepted(predictions, values, kept, threshold)
    frame = replace(frame or Frame(), threshold=threshold, threshold_origin=origin)
    return Scored(
        ids=ids,
        codes=codes,
        gold=gold_lists(gold.values(), codes),
        scores=RankedLists(lists, flags, values),
        train_counts=np.array([counts[code] for code in codes], dtype=np.int64),
        train_documents=len(train or {}),
        codebook=codebook,
        frame=replace(frame, remarks=(*frame.remarks, *predictions.remarks, *_coverage(ids, predictions.ids))),
    )


def write_submission(scored: Scored, path: Path | str, *, task: Task, top: int | None = None) -> None:
    """The run file of a shared task: a line per document and code, best first; the `top` codes or the accepted ones.

    CANTEMIST has a heading; CodiEsp has none, and its codes are in lower case.
    """
    lists = scored.scores.top(top).lists if top else _accepted_best_first(scored)
    codes = scored.codes if task == "cantemist" else tuple(code.lower() for code in scored.codes)
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write("file\tcode\n" if task == "cantemist" else "")
        for document, label in zip(lists.documents, lists.labels, strict=True):
            file.write(f"{scored.ids[document]}\t{codes[label]}\n")


def _accepted_best_first(scored: Scored) -> Lists:
    accepted = scored.scores.accepted()
    if not scored.scores.valued:
        return accepted
    order = np.lexsort((-scored.scores.scores_of(accepted), accepted.documents))
    return Lists(accepted.labels[order], accepted.starts)


def _prediction_file(columns: _Columns, path: Path) -> PredictionFile:
    documents, labels = np.array(columns.document, np.int64), np.array(columns.label, np.int32)
    for name, given in (("score", len(columns.score)), ("accepted", len(columns.flag))):
        if given not in (0, len(labels)):
            raise InputError(
                f"{path}: {len(labels) - given:,} codes have no {name!r} but others have: give all or none"
            )
    values = np.array(columns.score) if len(columns.score) else None
    flags = np.array(columns.flag, bool) if len(columns.flag) else None
    order = np.argsort(documents, kind="stable") if values is None else np.lexsort((-values, documents))
    order = order[_first_of_each(documents[order] * max(1, len(columns.codes)) + labels[order])]
    repeats = len(labels) - len(order)
    return PredictionFile(
        ids=tuple(columns.documents),
        codes=tuple(columns.codes),
        lists=Lists(labels[order], offsets(np.bincount(documents[order], minlength=len(columns.documents)))),
        values=None if values is None else values[order].astype(np.float32),
        flags=None if flags is None else flags[order],
        remarks=(f"{repeats:,} repeated codes were left out of the lists",) if repeats else (),
    )


def _first_of_each(keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each key stands first, in the order of the keys' places."""
    return np.sort(np.unique(keys, return_index=True)[1])


def _aligned(predictions: PredictionFile, ids: Sequence[str], codes: Sequence[str]) -> tuple[Lists, NDArray[np.int64]]:
    """The lists of `ids` in that order, labels numbering `codes`; and which flat entries of the file they are."""
    row_of = {document: row for row, document in enumerate(predictions.ids)}
    number = {code: label for label, code in enumerate(codes)}
    numbers = np.array([number[code] for code in predictions.codes], dtype=np.int64)
    padded = Lists(predictions.lists.labels, np.append(predictions.lists.starts, predictions.lists.starts[-1]))
    rows = np.array([row_of.get(document, len(row_of)) for document in ids], dtype=np.int64)
    lists, kept = taken(padded, rows)  # the last, empty row is for documents that the file does not have
    return lists.renumbered(numbers), kept


def _accepted(
    predictions: PredictionFile, values: NDArray[np.float32] | None, kept: NDArray[np.int64], threshold: float | None
) -> tuple[NDArray[np.bool_], str]:
    if threshold is not None:
        if values is None:
            raise InputError("--threshold needs predictions with scores, and this file has none")
        return values >= np.float32(threshold), "given by the user"
    if predictions.flags is not None:
        return predictions.flags[kept], "as the prediction file accepts"
    return np.ones(len(kept), bool), "none: every listed code is accepted"


def _coverage(gold: Iterable[str], predicted: Iterable[str]) -> tuple[str, ...]:
    wanted, given = set(gold), set(predicted)
    missing, foreign = len(wanted - given), len(given - wanted)
    if wanted and missing == len(wanted):
        raise InputError("no document of the gold file has predictions: do the two files use the same ids?")
    return (
        *((f"{missing:,} documents have no predictions and count as empty lists",) if missing else ()),
        *((f"{foreign:,} predicted documents are not in the gold file and were left out",) if foreign else ()),
    )


def _listed(path: Path, documents: dict[str, int]) -> Iterator[tuple[int, Listed]]:
    """The rows of a prediction file; a document without codes is entered in `documents` all the same."""
    if is_table(path):
        for number, (document, code, *rest) in table_rows(path):
            yield number, Listed(document, code, number_of(rest[0], path, number) if rest else None)
        return
    for number, row in json_rows(path):
        document = identifier_of(row, path, number)
        documents.setdefault(document, len(documents))
        for entry in list_of(row, "codes", path, number):
            yield number, _listed_code(document, entry, path, number)


def _listed_code(document: str, entry: Any, path: Path, number: int) -> Listed:
    if isinstance(entry, str):
        return Listed(document, entry)
    if not isinstance(entry, dict) or not isinstance(entry.get("code"), str):
        raise InputError(f'{path}, line {number}: each of "codes" is a code or an object with a "code"')
    score = entry.get("probability", entry.get("score"))
    accepted = entry.get("accepted")
    return Listed(
        document, entry["code"], None if score is None else number_of(score, path, number),
        None if accepted is None else bool(accepted),
    )  # fmt: skip


def _gold_codes(row: Mapping[str, Any], path: Path, number: int) -> Iterator[str]:
    for entry in list_of(row, "labels" if "labels" in row else "codes", path, number):
        code = entry.get("code") if isinstance(entry, dict) else entry
        if not isinstance(code, str):
            raise InputError(f"{path}, line {number}: a gold code is not a text")
        yield code
