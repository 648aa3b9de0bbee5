"""The groups of codes of a study: rare and frequent codes by system, means over runs."""

import csv
from pathlib import Path

import pytest

from plant.evaluate.measures.bins import Group
from plant.evaluate.significance.compare import compare
from plant.studies.fittings import Cost
from plant.studies.study import Study
from plant.studies.tables import write_study
from tests.scored_samples import matrix, scored


def group(name: str, *, accepted: int, macro_f1: float) -> Group:
    return Group(
        name, labels=4, gold=20, accepted=accepted, right=5, precision=0.25, recall=0.25, f1=0.25,
        macro_precision=0.5, macro_recall=0.125, macro_f1=macro_f1, distinct=3, recall_at_15=0.75, auc=None,
    )  # fmt: skip


@pytest.fixture
def study() -> Study:
    runs = tuple(
        (group("all", accepted=n, macro_f1=f), group("1-5", accepted=0, macro_f1=0.0))
        for n, f in [(10, 0.2), (30, 0.4)]
    )
    comparison = compare({"caml": [scored(*matrix())]}, measures=("MAP",), rounds=10)
    return Study(comparison, {"caml": Cost(1.0, 100.0, 10)}, {"caml": runs})


def test_groups_of_codes_are_means_over_runs(study: Study, tmp_path: Path) -> None:
    write_study(study, tmp_path / "table")
    rows = list(csv.DictReader((tmp_path / "table-codes.csv").read_text().splitlines()))
    assert [(row["system"], row["fitted notes"]) for row in rows] == [("caml", "all"), ("caml", "1-5")]
    assert float(rows[0]["accepted"]) == 20
    assert float(rows[0]["macro-F1"]) == pytest.approx(0.3)


def test_counts_are_whole_and_shares_have_four_digits(study: Study, tmp_path: Path) -> None:
    write_study(study, tmp_path / "table")
    line = (tmp_path / "table-codes.md").read_text().splitlines()[2]
    assert line == "| caml | all | 4 | 20 | 20 | 3 | 0.2500 | 0.2500 | 0.2500 | 0.5000 | 0.1250 | 0.3000 | 0.7500 |"
