"""The table of docs/measures.md: one set of predictions under the definitions that different papers use.

    python docs/measures_table.py CORPORA      # a folder with cantemist/{train,dev1,dev2}.jsonl

The system is TF-IDF and logistic regression of scikit-learn, fitted on train, its threshold tuned on dev1.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer

from plant.evaluate.choosing.thresholds import tune_global_threshold
from plant.evaluate.measures.table import measure
from plant.evaluate.report.markdown import table
from plant.evaluate.scores.outcome import Outcome, outcome_of
from plant.evaluate.scores.scored import Scored, scored_densely

Notes = list[dict[str, object]]


def main() -> None:
    """Fit, score dev2, print the table."""
    train, dev, report = (
        _notes(Path(sys.argv[1]) / "cantemist" / f"{name}.jsonl") for name in ("train", "dev1", "dev2")
    )
    codes, dev_scores, scores, counts = _fitted(train, dev, report)
    targets = np.array([[code in set(note["labels"]) for code in codes] for note in dev])  # type: ignore[call-overload]
    tuned = tune_global_threshold(dev_scores, targets)
    whole = _scored(scores, report, codes, counts, len(train), tuned)
    print(
        table(
            ("what is printed as", "definition", "value"),
            _rows(whole, _scored(scores, report, codes, counts, len(train), 0.5)),
        )
    )


def _rows(whole: Scored, untuned: Scored) -> list[tuple[str, str, str]]:
    seen = whole.only(whole.train_counts > 0)
    outcome, known, half = outcome_of(whole), outcome_of(seen), outcome_of(untuned)
    without = outcome_of(whole.without(["8000/6"]), areas=False)
    entries = [
        ("macro-F1", "mean of labels, gold in the evaluated notes", measure("macro-F1 (mean of labels)")(outcome)),
        ("macro-F1", "of macro-P and macro-R, same labels", measure("macro-F1 (of macro-P and macro-R)")(outcome)),
        ("macro-F1", "mean of labels, all labels", measure("macro-F1 (mean of labels, all labels)")(outcome)),
        ("macro-F1", "the same, all labels", measure("macro-F1 (of macro-P and macro-R, all labels)")(outcome)),
        ("macro-F1", "mean of labels, gold and seen in training", measure("macro-F1 (mean of labels)")(known)),
        ("micro-F1", "threshold tuned on dev, all codes", measure("micro-F1")(outcome)),
        ("micro-F1", "threshold 0.5", measure("micro-F1")(half)),
        ("micro-F1", "without 8000/6, as CANTEMIST published it", measure("micro-F1")(without)),
        ("micro-F1", "codes that training never saw struck from the gold", measure("micro-F1")(known)),
        ("F1", "mean of documents", measure("F1 (mean of documents)")(outcome)),
        ("MAP", "whole lists, unseen codes missed", measure("MAP")(outcome)),
        ("MAP", "unseen codes struck from the gold", measure("MAP")(known)),
        ("MAP", "of the accepted codes only", _accepted_map(outcome)),
        ("MAP@5", "first 5 codes, divided by all gold codes", measure("MAP@5")(outcome)),
        ("P@15", "divided by 15", measure("P@15")(outcome)),
        ("P@15", "divided by 15 or the number of gold codes, the smaller", _capped_precision(outcome, 15)),
        ("F1@8", "mean of documents", measure("F1@8 (mean of documents)")(outcome)),
        ("F1@8", "of the mean P@8 and the mean R@8", measure("F1@8 (of P@8 and R@8)")(outcome)),
        ("macro-AUC", "labels gold in the evaluated notes, 0.5 without scores", measure("macro-AUC")(outcome)),
        ("macro-AUC", "labels gold and seen in training", measure("macro-AUC")(known)),
    ]  # fmt: skip
    return [(name, definition, f"{value:.3f}") for name, definition, value in entries]


def _capped_precision(outcome: Outcome, k: int) -> float:
    wanted = np.minimum(k, np.maximum(1, outcome.gold.lengths))
    return float(np.mean(outcome.gold.sums(outcome.ranks <= k) / wanted))


def _accepted_map(outcome: Outcome) -> float:
    from dataclasses import replace

    from plant.evaluate.scores.forms import UNRANKED

    return measure("MAP")(replace(outcome, ranks=np.where(outcome.found, outcome.ranks, UNRANKED)))


def _fitted(
    train: Notes, dev: Notes, report: Notes
) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    binarizer = MultiLabelBinarizer()
    targets = binarizer.fit_transform([note["labels"] for note in train])
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    model = OneVsRestClassifier(LogisticRegression(C=100.0, max_iter=1000)).fit(
        words.fit_transform(_texts(train)), targets
    )
    dev_scores, scores = (model.predict_proba(words.transform(_texts(notes))) for notes in (dev, report))
    return tuple(binarizer.classes_), dev_scores, scores, targets.sum(axis=0)


def _scored(
    scores: NDArray[np.float64], notes: Notes, codes: Sequence[str], counts: NDArray[np.int64], n: int, threshold: float
) -> Scored:
    return scored_densely(
        scores, ids=[str(note["id"]) for note in notes], codes=codes, gold=[note["labels"] for note in notes],  # type: ignore[misc]
        thresholds=threshold, train_counts=counts, train_documents=n,
    )  # fmt: skip


def _texts(notes: Notes) -> list[str]:
    return [str(note["text"]) for note in notes]


def _notes(path: Path) -> Notes:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
