"""Reports, their files, and the two verbs."""

import argparse
import json
import re

import numpy as np
import pytest

from plant.cli import compare as compare_verb
from plant.cli import evaluate as evaluate_verb
from plant.codes.codebook import CodeBook
from plant.errors import InputError
from plant.evaluate.measures.bins import by_frequency, by_name, part_names
from plant.evaluate.measures.table import measure
from plant.evaluate.report.render import html_of, json_of, write_report
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import save_scored, scored_densely
from plant.evaluate.significance.compare import compare
from plant.evaluate.significance.compare_tables import latex_of, markdown_of, tsv_of
from plant.steps.evaluate import Settings, evaluate
from tests.scored_samples import codes_of, matrix, scored

SAMPLE = scored(*matrix())
REPORT = evaluate(SAMPLE, Settings(rounds=50, without=("A00",), without_frequent=(2,)))


def test_bins_add_up_to_the_whole():
    rows = by_frequency(outcome_of(SAMPLE))
    assert sum(row.gold for row in rows) == len(SAMPLE.gold.labels)
    assert [row.name for row in rows] == ["0", "1-5", "6-10", "11-50", "51-100", "101-500", "> 500"]
    right, both = sum(row.right for row in rows), sum(row.gold + row.accepted for row in rows)
    assert 2 * right / both == pytest.approx(measure("micro-F1")(outcome_of(SAMPLE)))


@pytest.mark.parametrize(
    ("count", "name"), [(0, "0"), (1, "1-5"), (5, "1-5"), (6, "6-10"), (500, "101-500"), (501, "> 500")]
)
def test_a_code_falls_into_the_bin_of_its_training_notes(count, name):
    one = scored_densely(np.array([[0.9]]), ids="d", codes="x", gold=["x"], thresholds=0.5,
                         train_counts=np.array([count]), train_documents=1000)  # fmt: skip
    assert [row.name for row in by_frequency(outcome_of(one)) if row.gold] == [name]


def test_a_group_equals_the_measure_of_its_codes_alone():
    rows = by_name(outcome_of(SAMPLE), [code[0] for code in SAMPLE.codes])
    alone = outcome_of(SAMPLE.only(np.array([code[0] == "B" for code in SAMPLE.codes])))
    row = next(row for row in rows if row.name == "B")
    assert row.f1 == pytest.approx(measure("micro-F1")(alone))
    assert row.macro_precision == pytest.approx(measure("macro-P")(alone))
    assert row.macro_recall == pytest.approx(measure("macro-R")(alone))
    assert row.macro_f1 == pytest.approx(measure("macro-F1 (mean of labels)")(alone))
    assert row.distinct == len(np.unique(alone.accepted.labels))
    assert row.auc == pytest.approx(alone.areas.macro)


def test_leaving_codes_out_equals_a_matrix_without_them():
    scores, targets = matrix()
    codes = SAMPLE.codes[1:]
    gold = codes_of(targets[:, 1:], codes)
    smaller = outcome_of(scored_densely(scores[:, 1:], ids=SAMPLE.ids, codes=codes, gold=gold, thresholds=0.5))
    for name in ("MAP", "micro-F1"):
        assert REPORT.measures[f"{name} (without A00)"].value == pytest.approx(measure(name)(smaller))


def test_the_most_frequent_codes_are_left_out_by_training_counts():
    without = outcome_of(SAMPLE.without(["A00", "B01"]))
    name = "MAP (without the 2 most frequent training codes)"
    assert REPORT.measures[name].value == pytest.approx(measure("MAP")(without))


def test_an_unknown_code_to_leave_out_is_refused():
    with pytest.raises(InputError, match="unknown code 'Z'"):
        evaluate(SAMPLE, Settings(without=("Z",)))


def test_no_document_is_refused():
    nothing = scored_densely(np.zeros((0, 1)), ids=[], codes="x", gold=[], thresholds=0.5)
    with pytest.raises(InputError, match="no document"):
        evaluate(nothing)


def test_every_report_carries_its_frame():
    table = json.loads(json_of(REPORT))
    assert table["documents"] == 40
    assert table["unseen"]["labels"] == 1
    assert table["threshold"] == {"value": 0.5, "origin": "micro-F1 on dev"}
    assert table["list_length"] == 25
    assert set(table["prior"]) == set(table["measures"])
    assert table["measures"]["MAP"].keys() == {"value", "low", "high"}


def test_every_measure_has_a_definition_or_says_what_was_left_out():
    assert all(name in REPORT.definitions or "without" in name for name in REPORT.measures)


def test_the_same_report_gives_the_same_bytes():
    again = evaluate(SAMPLE, Settings(rounds=50, without=("A00",), without_frequent=(2,)))
    assert json_of(again) == json_of(REPORT)
    assert html_of(again) == html_of(REPORT)


def test_diagnoses_and_procedures_are_measured_apart():
    codes = ["I10", "E11.9", "0DTJ4ZZ"]
    both = scored_densely(
        np.array([[0.9, 0.1, 0.8], [0.2, 0.7, 0.3]]), ids="12", codes=codes, gold=[["I10", "0DTJ4ZZ"], ["I10"]],
        thresholds=0.5, codebook=CodeBook("icd10", tuple(codes)),
    )  # fmt: skip
    assert part_names(codes, both.codebook) == ("diagnosis", "diagnosis", "procedure")
    parts = evaluate(both, Settings(rounds=0)).parts
    assert parts["procedure"]["micro-F1"].value == 1.0
    assert parts["diagnosis"]["micro-F1"].value == pytest.approx(2 / 4)


def test_worst_codes_are_named_with_documents_that_show_it():
    for worst in REPORT.worst:
        for document in worst.missed_in:
            row = SAMPLE.ids.index(document)
            assert worst.code in {SAMPLE.codes[label] for label in SAMPLE.gold.of(row)}
            assert SAMPLE.scores.values[row, SAMPLE.codes.index(worst.code)] < 0.5


def test_the_page_needs_nothing_from_outside():
    page = html_of(REPORT)
    assert re.findall(r'(?:src|href)="(?!data:|#)', page) == []
    assert "http://" not in re.sub(r"data:[^\"]+", "", page)


def test_what_users_name_is_escaped():
    from dataclasses import replace

    named = replace(REPORT, frame=replace(REPORT.frame, system="<script>alert(1)</script>"))
    assert "<script>" not in html_of(named)


def test_a_report_is_written_as_html_markdown_and_json(tmp_path):
    assert write_report(REPORT, tmp_path / "report") == tmp_path / "report" / "report.html"
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"report.html", "report.md", "report.json"}


def test_reports_without_scores_or_training_are_whole_too(tmp_path):
    from plant.evaluate.scores.files import read_predictions, scored_from_files

    (tmp_path / "p.tsv").write_text("n1\ta\nn2\tb\n")
    report = evaluate(scored_from_files({"n1": ("a",), "n2": ("c",)}, read_predictions(tmp_path / "p.tsv")))
    assert report.curve is None
    assert report.prior == {}
    assert "frequency prior" not in html_of(report)


def comparison():
    scores, targets = matrix()
    return compare({"a_1": [SAMPLE], "b": [scored(1 - scores, targets)]}, measures=["MAP", "micro-F1"], rounds=200)


def test_a_comparison_is_written_in_three_forms():
    assert "| b | 1 |" in markdown_of(comparison())
    assert r"a\_1 & 1 &" in latex_of(comparison())
    assert "$^{*}$" in latex_of(comparison())
    assert tsv_of(comparison()).splitlines()[1].split("\t")[:2] == ["a_1", "MAP"]


def run_verb(verb, *arguments):
    parser = argparse.ArgumentParser()
    verb.configure(parser)
    verb.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture
def run_folder(tmp_path):
    save_scored(SAMPLE, tmp_path / "run" / "predictions", recipe={}, inputs={})
    return tmp_path / "run"


def test_the_verb_evaluates_a_run_and_leaves_its_report(run_folder, capsys):
    run_verb(evaluate_verb, run_folder, "--json", "--rounds", 20)
    table = json.loads(capsys.readouterr().out)
    assert table["measures"]["micro-F1"]["value"] == pytest.approx(REPORT.measures["micro-F1"].value)
    assert (run_folder / "report" / "report.html").is_file()


def test_the_verb_evaluates_files_of_other_systems(tmp_path, capsys):
    (tmp_path / "gold.jsonl").write_text('{"id": "1", "labels": ["a"]}\n')
    (tmp_path / "p.tsv").write_text("1\tb\n1\ta\n")
    run_verb(evaluate_verb, "--gold", tmp_path / "gold.jsonl", "--predictions", tmp_path / "p.tsv", "--json")
    assert json.loads(capsys.readouterr().out)["measures"]["MAP"]["value"] == 0.5


def test_the_verb_prints_a_table_for_people(run_folder, capsys):
    run_verb(evaluate_verb, run_folder, "--rounds", 0)
    assert re.search(r"^MAP +0\.\d{4}", capsys.readouterr().out, re.MULTILINE)


def test_the_verb_asks_for_a_run_or_both_files(tmp_path):
    with pytest.raises(InputError, match="name a RUN"):
        run_verb(evaluate_verb, "--gold", tmp_path / "gold.jsonl")


def test_a_folder_without_predictions_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no predictions"):
        run_verb(evaluate_verb, tmp_path)


def test_compare_groups_runs_by_name_and_writes_its_tables(run_folder, tmp_path, capsys):
    run_verb(
        compare_verb,
        f"x={run_folder}",
        f"y={run_folder}",
        f"y={run_folder}",
        "--rounds",
        50,
        "--out",
        tmp_path / "table",
    )
    assert re.search(r"^y +2 ", capsys.readouterr().out, re.MULTILINE)
    assert all((tmp_path / f"table.{suffix}").is_file() for suffix in ("tsv", "md", "tex"))


def test_compare_refuses_a_single_system(run_folder):
    with pytest.raises(InputError, match="at least two"):
        run_verb(compare_verb, run_folder, run_folder)
