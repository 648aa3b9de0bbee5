"""The README's commands, on a small table of notes: from notes to ranked, explained codes and a comparison."""

import json
from pathlib import Path

import pytest

from tests.commands import ended
from tests.made_up import notes_of


def plant(*arguments: str, cwd: Path, stdin: str = "") -> str:
    """The standard output of a command that must end well."""
    result = ended(*arguments, cwd=cwd, stdin=stdin)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with notes.csv and the runs of two recipes."""
    folder = tmp_path_factory.mktemp("readme")
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(100)]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    for recipe in ("tfidf", "prior"):
        plant("run", "notes.csv", "--recipe", recipe, "--out", f"runs/{recipe}", cwd=folder)
    return folder


def test_a_run_leaves_a_coder_predictions_and_a_report(runs: Path) -> None:
    run = runs / "runs" / "tfidf"
    assert {"corpus", "coder", "predictions", "report"} <= {path.name for path in run.iterdir()}
    assert (run / "report" / "report.html").stat().st_size > 10_000


def test_a_second_run_makes_nothing_again(runs: Path) -> None:
    manifest = runs / "runs" / "tfidf" / "coder" / "manifest.json"
    before = manifest.stat().st_mtime_ns
    plant("run", "notes.csv", "--recipe", "tfidf", "--out", "runs/tfidf", cwd=runs)
    assert manifest.stat().st_mtime_ns == before


def test_predictions_are_json_lines_best_first_with_evidence(runs: Path) -> None:
    notes = [{"id": "x", "text": "wordb signc1x worda"}, {"id": "y", "text": "signc3x"}]
    lines = "".join(json.dumps(note) + "\n" for note in notes)
    rows = [json.loads(line) for line in plant("predict", "runs/tfidf/coder", "-", cwd=runs, stdin=lines).splitlines()]
    assert [row["id"] for row in rows] == ["x", "y"]
    best = rows[0]["codes"][0]
    assert best["code"] == "C1"
    assert best["accepted"] is True
    assert best["evidence"][0]["text"] == "signc1x"
    assert [code["probability"] for code in rows[0]["codes"]] == sorted(
        (code["probability"] for code in rows[0]["codes"]), reverse=True
    )


def test_predictions_go_to_parquet_too(runs: Path) -> None:
    import polars

    plant("predict", "runs/tfidf/coder", "notes.csv", "--out", "coded.parquet", "--top", "2", cwd=runs)
    table = polars.read_parquet(runs / "coded.parquet")
    assert len(table) == 100
    assert set(table["codes"][0][0]) == {"code", "description", "probability", "accepted", "evidence"}


def test_an_explanation_lights_the_words(runs: Path) -> None:
    (runs / "note.txt").write_text("worda signc2x <b>wordb</b>")
    shown = plant("explain", "runs/tfidf/coder", "note.txt", "--code", "C2", "--html", "note.html", cwd=runs)
    assert ">signc2x<" in shown
    page = (runs / "note.html").read_text()
    assert "<mark" in page
    assert "<b>wordb" not in page  # the note is text, never markup


def test_two_runs_are_compared_with_significance(runs: Path) -> None:
    table = plant("compare", "runs/tfidf", "runs/prior", "--rounds", "200", "--out", "table", cwd=runs)
    assert "tfidf" in table
    assert "prior" in table
    assert (runs / "table.tex").is_file()


def test_a_corpus_is_shown_as_json_and_drawn(runs: Path) -> None:
    shown = json.loads(plant("show", "runs/tfidf", "--json", "--plot", "labels.png", cwd=runs))
    assert shown["notes"] == {"train": 60, "dev": 20, "test": 20}
    assert shown["codes"] == 5
    assert (runs / "labels.png").read_bytes().startswith(b"\x89PNG")


def test_measures_are_printed_as_json(runs: Path) -> None:
    report = json.loads(plant("evaluate", "runs/tfidf", "--json", "--rounds", "50", cwd=runs))
    measures = report["measures"]
    assert measures["MAP"]["low"] <= measures["MAP"]["value"] <= measures["MAP"]["high"]
    assert {"micro-F1", "macro-F1 (mean of labels)", "macro-F1 (of macro-P and macro-R)"} <= set(measures)


def test_explanations_are_measured_once_and_stand_in_the_report(runs: Path) -> None:
    ask = ("evaluate", "runs/tfidf", "--explanations", "5", "--json", "--rounds", "0")
    figures = json.loads(plant(*ask, cwd=runs))["explanations"]
    assert figures["contribution"]["comprehensiveness"] > figures["random"]["comprehensiveness"]
    assert json.loads(plant(*ask, cwd=runs))["explanations"] == figures  # the seconds too: nothing was measured again
    assert "contribution" in (runs / "runs" / "tfidf" / "report" / "report.html").read_text()


def test_parts_are_listed(runs: Path) -> None:
    parts = json.loads(plant("parts", "--json", cwd=runs))
    assert {"plant", "caml", "laat", "prior", "tfidf"} <= set(parts["recipes"])
    assert "planted" in parts["decoders"]
