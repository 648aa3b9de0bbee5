"""The judge: which candidates are right, learned from notes whose candidates come from readers that had not seen them.

Level 1 judges a span and a code, level 2 a note and a code, by what level 1 said of all spans of the note. Level 2
learns from scores of level 1 that come from other notes (folds), so that it does not trust what was learned by heart;
the threshold is chosen on scores of level 2 made in the same way. Judges whom different readers taught are averaged.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates import boosting
from plant.candidates.boosting import Trees, fit_trees, probabilities
from plant.candidates.note_features import joined_features, note_codes
from plant.candidates.packing import part, under
from plant.candidates.rows import ListedNotes, Rows
from plant.codes.parts import code_parts
from plant.store.ragged import owners
from plant.types import Progress, silent

SPANS = {"leaves": 31, "rate": 0.04, "rounds": 300, "features": 0.6, "rows": 0.8, "l2": 3.0, "least_rows": 30}
NOTES = {"leaves": 15, "rate": 0.04, "rounds": 250, "features": 0.6, "rows": 0.8, "l2": 5.0, "least_rows": 30}
NO_FOLD = -1  # leaving it out leaves nothing out
MAXIMA = ("probability", "folded share", "product")  # features of rows whose maximum counts for the note
TOGETHER = 2  # judges of level 2, of different seeds, whose scores are averaged


@dataclass(frozen=True)
class Judge:
    """Trees of both levels."""

    spans: Trees
    notes: tuple[Trees, ...]

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain options and arrays."""
        packed = [boosting.pack(trees) for trees in (self.spans, *self.notes)]
        arrays = {f"{number}.{name}": array for number, (_, own) in enumerate(packed) for name, array in own.items()}
        return {"trees": [options for options, _ in packed]}, arrays


def unpack_judge(options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Judge:
    """The judge that `pack` took apart."""
    trees = [
        boosting.unpack(own, {name.partition(".")[2]: a for name, a in arrays.items() if name.startswith(f"{number}.")})
        for number, own in enumerate(options["trees"])
    ]
    return Judge(trees[0], tuple(trees[1:]))


@dataclass(frozen=True)
class Columns:
    """What level 2 must know of codes and features: the parts of every code, and which features it maximises."""

    parts: NDArray[np.int32]  # [codes, parts], numbers of the values of each part
    maxima: tuple[int, ...]


def columns_of(codes: Sequence[str], features: Sequence[str], coding: str) -> Columns:
    """The parts of each code by number, and the features that level 2 maximises."""
    parts = [code_parts(coding).split(code) for code in codes]
    numbers = [
        {value: number for number, value in enumerate(sorted(set(column)))} for column in zip(*parts, strict=True)
    ]
    table = [[numbers[place][value] for place, value in enumerate(row)] for row in parts]
    maxima = tuple(features.index(name) for name in MAXIMA)
    return Columns(np.array(table, np.int32).reshape(len(codes), -1), maxima)


@dataclass(frozen=True)
class Judged:
    """Scores of the codes of notes: note n owns `codes[starts[n]:starts[n + 1]]`."""

    codes: NDArray[np.int32]
    scores: NDArray[np.float32]
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class TaughtJudge:
    """A judge, and what it would have said of each fitted note without having seen it."""

    judge: Judge
    held_out: Judged

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain options and arrays."""
        options, arrays = self.judge.pack()
        return options, under("judge", arrays) | under("held_out", vars(self.held_out))


def unpack_taught(options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TaughtJudge:
    """The judge that `pack` took apart, with what it said."""
    return TaughtJudge(unpack_judge(options, part("judge", arrays)), Judged(**part("held_out", arrays)))


@dataclass(frozen=True)
class Lessons:
    """Listed notes with the answers: which rows are right, which codes each note has, how many more it has."""

    listed: ListedNotes
    right: NDArray[np.bool_]  # per row
    gold: Sequence[frozenset[int]]  # codes by number
    folds: NDArray[np.int64]  # of each note
    keys: NDArray[np.int64]  # of each note, the same in whatever order notes come


def judge_note(
    judges: Sequence[Judge], rows: Rows, columns: Columns
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """The codes of a note with their scores, and the scores of the single rows: the means of several judges."""
    of_rows = [score_rows(judge.spans, rows) for judge in judges]
    found = [note_codes(rows, own, columns.parts, columns.maxima) for own in of_rows]
    scores = [score_codes(judge.notes, own.features) for judge, own in zip(judges, found, strict=True)]
    return found[0].codes, _mean(scores), _mean(of_rows)


def _mean(scores: Sequence[NDArray[np.floating[Any]]]) -> NDArray[np.float32]:
    return np.mean(scores, axis=0).astype(np.float32)


def score_rows(trees: Trees, rows: Rows) -> NDArray[np.float32]:
    """Level 1; a row without a place has nothing to be judged by, and 0."""
    scores = np.zeros(len(rows), np.float32)
    placed = rows.first >= 0
    if placed.any():
        scores[placed] = probabilities(trees, rows.features[placed])
    return scores


def score_codes(trees: Sequence[Trees], features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Level 2, the mean of several judges."""
    if not len(features):
        return np.empty(0, np.float32)
    return _mean([probabilities(one, features) for one in trees])


def teach(lessons: Lessons, columns: Columns, *, seed: int, progress: Progress = silent) -> TaughtJudge:
    """Fit both levels, each note's scores held out by folds of notes."""
    steps = _Steps(progress, 2 * (len(set(lessons.folds.tolist())) + 1))
    held, spans = _level_1(lessons, seed=seed, steps=steps)
    starts = lessons.listed.starts
    notes = [
        note_codes(lessons.listed.of(note), held[starts[note] : starts[note + 1]], columns.parts, columns.maxima)
        for note in range(len(lessons.listed))
    ]
    features, places = joined_features(notes)
    codes = np.concatenate([note.codes for note in notes])
    right = np.array(
        [code in lessons.gold[note] for note, own in enumerate(notes) for code in own.codes.tolist()], np.float32
    )
    keys = _row_keys(lessons.keys[owners(places)], codes)
    folds = lessons.folds[owners(places)]
    seeds = tuple(seed * TOGETHER + number for number in range(TOGETHER))
    scores, judges = _held_out(features, right, folds, keys, NOTES, seeds=seeds, steps=steps)
    return TaughtJudge(Judge(spans, judges), Judged(codes, scores, places))


def chosen_threshold(held_out: Sequence[Judged], gold: Sequence[Collection[int]]) -> float:
    """The threshold of the best micro-F1 of what several judges say together of notes that they have not seen."""
    codes, scores, note = _together(held_out)
    right = np.array([code in gold[n] for code, n in zip(codes.tolist(), note.tolist(), strict=True)], np.bool_)
    return best_threshold(scores, right, sum(map(len, gold)))


def _together(
    held_out: Sequence[Judged],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Codes, mean scores and notes; of a code that some readers did not list, the mean of those who did."""
    codes = np.concatenate([own.codes for own in held_out]).astype(np.int64)
    note = np.concatenate([owners(own.starts) for own in held_out])
    width = int(codes.max(initial=0)) + 1
    pairs, pair = np.unique(note * width + codes, return_inverse=True)
    totals = np.bincount(pair, np.concatenate([own.scores for own in held_out]), len(pairs))
    return pairs % width, (totals / np.bincount(pair, minlength=len(pairs))).astype(np.float32), pairs // width


def best_threshold(scores: NDArray[np.float32], right: NDArray[np.bool_], total: int) -> float:
    """The threshold of the best micro-F1, `total` codes being right in all; between two scores."""
    if not right.any():
        return 1.0
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(right[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # of equal scores all or none are taken
    f1 = 2 * hits[last] / (last + 1 + total)
    best = last[int(f1.argmax())]
    below = scores[order[best + 1]] if best + 1 < len(order) else 0.0
    return float((scores[order[best]] + below) / 2)


@dataclass
class _Steps:
    """Tells how many of all models are fitted."""

    progress: Progress
    total: int
    done: int = 0

    def passed(self, trees: tuple[Trees, ...]) -> tuple[Trees, ...]:
        """The same trees, counted."""
        self.done += 1
        self.progress("judging candidates", self.done, self.total)
        return trees


def _level_1(lessons: Lessons, *, seed: int, steps: _Steps) -> tuple[NDArray[np.float32], Trees]:
    rows, note = lessons.listed.rows, owners(lessons.listed.starts)
    placed = np.flatnonzero(rows.first >= 0)
    features, right, note = rows.features[placed], lessons.right[placed].astype(np.float32), note[placed]
    keys = _row_keys(lessons.keys[note], rows.first[placed], rows.last[placed], rows.code[placed])
    found, trees = _held_out(features, right, lessons.folds[note], keys, SPANS, seeds=(seed,), steps=steps)
    scores = np.zeros(len(rows), np.float32)
    scores[placed] = found
    return scores, trees[0]


def _held_out(
    features: NDArray[np.float32],
    right: NDArray[np.float32],
    folds: NDArray[np.int64],
    keys: NDArray[np.int64],
    options: Mapping[str, Any],
    *,
    seeds: Sequence[int],
    steps: _Steps,
) -> tuple[NDArray[np.float32], tuple[Trees, ...]]:
    """Scores of each fold by trees of the others, and trees of all; as many fits at a time as there are cores."""
    scores = np.zeros(len(right), np.float32)

    def fitted(fold: int) -> tuple[Trees, ...]:
        taught = folds != fold
        found = [fit_trees(features[taught], right[taught], seed=s, keys=keys[taught], **options) for s in seeds]
        if fold != NO_FOLD:
            scores[~taught] = score_codes(found, features[~taught])
        return tuple(found)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        models = [steps.passed(trees) for trees in pool.map(fitted, [*sorted(set(folds.tolist())), NO_FOLD])]
    return scores, models[-1]


def _row_keys(*numbers: NDArray[np.generic]) -> NDArray[np.int64]:
    """One number for each row of several, which tells where it comes from and not at which place it stands."""
    mixed = np.zeros(len(numbers[0]), np.uint64)
    for column in numbers:
        mixed = (mixed ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed.view(np.int64)
