"""Claims of the papers as studies: what is fitted, on which notes, what is measured, and what that says."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from plant.cli.main import main
from plant.cluster.pool import Here
from plant.data.sources import open_source
from plant.errors import InputError
from plant.evaluate.scores.scored import scored_densely
from plant.recipe.reading import load_recipe
from plant.studies.claims import (
    ABLATIONS,
    CLAIMS,
    FLOOR,
    PRINTED,
    Settings,
    ablation_findings,
    low_shot_findings,
    low_shot_settled,
    once,
    overfit_findings,
    rarest,
)
from plant.studies.curves import data_saved, notes_for
from plant.studies.fittings import Notes
from plant.studies.leak import random_sources
from plant.studies.page import Findings, write_findings
from plant.studies.processes import Spent
from plant.studies.prove import prove
from plant.studies.study import CLAIMED
from plant.studies.variants import Variant, rows_of_variants
from plant.systems.members import member_recipes
from tests.commands import in_this_process
from tests.made_up import notes_of


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("claims") / "notes.csv"
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(60)]
    path.write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    return path


def proved(name: str, source: Path, recipes: tuple[str, ...] = (), overrides: tuple[str, ...] = ()) -> Findings:
    settings, notes = Settings(quick=True, recipes=recipes), Notes(str(source), ("--report", "test"))
    out = source.parent / name
    return prove(CLAIMS[name], settings, (1, 2), notes, out, overrides=overrides, call=in_this_process)


def test_the_named_claims_are_those_that_are_there() -> None:
    assert tuple(CLAIMS) == CLAIMED


def test_low_shot_fits_growing_draws_that_share_their_notes(source: Path) -> None:
    findings = proved("low-shot", source, recipes=("tfidf", "prior"))
    sizes = [(row["system"], row["notes"]) for row in findings.rows]
    systems = ("tfidf", "tfidf, mutual information alone", "prior")
    floor = [(FLOOR, notes) for notes in (12, 36)]
    assert sizes == [*((system, notes) for notes in (12, 36) for system in systems), *floor]
    assert all(0 <= row["P@5"] <= 1 and 0 <= row["MAP"] <= 1 for row in findings.rows)
    fitted = [[row[name] for row in findings.rows if row["system"] == "prior"] for name in ("P@5", "P@15", "MAP")]
    assert fitted == [[row[name] for row in findings.rows[-2:]] for name in ("P@5", "P@15", "MAP")]
    assert not any(FLOOR in line for line in findings.said)
    written = {path.name: path.read_text() for path in write_findings(findings, source.parent / "low-shot")}
    assert [json.loads(line) for line in written["rows.jsonl"].splitlines()] == list(findings.rows)
    assert written["report.html"].count("<svg") == 3
    assert "plant study low-shot" in written["report.html"]
    assert str(source.parent) not in written["report.html"]
    assert len(written["table.csv"].splitlines()) == 1 + 8


def test_a_study_of_a_claim_goes_on_where_it_was_stopped(source: Path) -> None:
    first = proved("rare", source, recipes=("tfidf", "prior"))
    assert [row["variant"] for row in first.rows] == ["tfidf", "prior"]
    assert {row["codes"] for row in first.rows} == {5}
    assert first.rows[1]["macro-AUC"] == 0.5

    def never(arguments: Sequence[str], log: Path) -> Spent | None:
        raise AssertionError("fitted again")

    settings, notes = Settings(quick=True, recipes=("tfidf", "prior")), Notes(str(source), ("--report", "test"))
    again = prove(CLAIMS["rare"], settings, (1,), notes, source.parent / "rare", call=never)
    assert again.rows == first.rows


def test_runs_of_a_claim_may_be_fitted_by_workers(source: Path, tmp_path: Path) -> None:
    settings, notes, said = Settings(quick=True, recipes=("prior",)), Notes(str(source), ("--report", "test")), []
    findings = prove(CLAIMS["rare"], settings, (1,), notes, tmp_path, say=said.append, pool=Here())
    assert [row["variant"] for row in findings.rows] == ["prior"]
    assert findings.rows[0]["CPU minutes"] > 0
    assert any("prior, seed 1" in line for line in said)


def test_overfitting_is_told_epoch_by_epoch(source: Path) -> None:
    findings = proved("overfit", source, recipes=("fasttext-small", "caml-small"), overrides=("vectors.size=8",))
    assert [(row["system"], row["epoch"]) for row in findings.rows] == [
        (system, epoch) for system in ("fasttext-small", "caml-small") for epoch in (1, 2)
    ]
    assert all(row["fitted loss"] > 0 and row["choosing loss"] > 0 for row in findings.rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_runs_quickly_on_the_embedded_corpus(name: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["study", name, "--corpus", "demo", "--quick", "--set", "prepare.fitted_notes=60", "--out", str(tmp_path)])
    assert end.value.code in (0, None)
    assert (tmp_path / "report.html").is_file()


def test_random_labels_show_nothing_and_a_leak_shows(source: Path) -> None:
    findings = proved("leak", source, recipes=("tfidf",))
    areas = {row["reported notes"]: row["macro-AUC"] for row in findings.rows}
    assert areas["leaked"] > areas["apart"] + 0.2
    assert f"up to {areas['leaked']:.3f}" in findings.said[1]


def test_random_sources_keep_texts_and_how_many_codes_there_are(source: Path) -> None:
    made = random_sources(Notes(str(source), ("--report", "test")), source.parent / "random")
    real = sorted(open_source(str(source)).notes(), key=lambda note: note.id)
    apart, leaked = (list(open_source(made[kind]).notes()) for kind in ("apart", "leaked"))
    apart.sort(key=lambda note: note.id)
    assert [(note.id, note.text, note.split) for note in apart] == [(note.id, note.text, note.split) for note in real]
    assert sorted(note.codes for note in apart) == sorted(note.codes for note in real)
    assert [note.codes for note in apart] != [note.codes for note in real]
    assert len(leaked) == len(real) + sum(note.split == "test" for note in real)
    assert {note.text for note in leaked[len(real) :]} == {note.text for note in real if note.split == "test"}
    assert all(note.split == "train" for note in leaked[len(real) :])


def test_words_of_codes_and_of_notes_stand_beside_what_was_marked(source: Path) -> None:
    marked = source.parent / "marked.jsonl"
    with marked.open("w") as file:
        for note in notes_of(60):
            marks = [
                {"start": (at := note.text.index(f"sign{code.lower()}x")), "end": at + 7, "label": code}
                for code in note.codes
            ]
            row = {"id": note.id, "text": note.text, "codes": note.codes, "split": note.split, "evidence": marks}
            file.write(json.dumps(row) + "\n")
    tiny = ("encoder.embedding=8", "encoder.filters=8", "relate.form=mi", "rank.epochs=20")
    out = {name: proved(name, marked, overrides=tiny) for name in ("tokens", "case-study")}
    by_code = {row["code"]: row for row in out["tokens"].rows}
    assert sorted(by_code) == [f"C{label}" for label in range(5)]
    for code, row in by_code.items():
        assert f"sign{code.lower()}x" in row["mutual information"].split(", ")[:2]
        assert row["marked"] == f"sign{code.lower()}x"
        assert len(row["ranker"].split(", ")) == 8
    for row in out["case-study"].rows:
        assert row["marked"] == f"sign{row['code'].lower()}x"
        assert row["marked"] in row["static"].split(", ")
        assert 0 < row["static, share marked"] <= 1
        assert row["learned"] == ""  # plant-cnn has none
        assert "learned, share marked" not in row
    assert not any("learned" in column for column in out["case-study"].header)
    assert any(line.startswith("static: ") for line in out["case-study"].said)
    assert {row["note"] for row in out["case-study"].rows} <= {1, 2, 3, 4, 5}


def test_an_ablation_changes_one_thing_of_the_printed_recipe() -> None:
    quick, whole = (CLAIMS["ablation"].variants(Settings(quick=quick)) for quick in (True, False))
    assert [one.about["change"] for one in whole] == list(ABLATIONS)
    assert quick == whole[:2]
    told = (("all", 1, 0.5), ("none", 1, 0.4), (FLOOR, 1, 0.1))
    rows = [{"change": change, "seed": seed, "MAP": value} for change, seed, value in told]
    assert ablation_findings(rows) == ["none: MAP -0.1000 (seeds -0.1000 to -0.1000)"]


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_is_a_recipe_that_can_be_read(name: str) -> None:
    assert member_recipes(load_recipe(PRINTED, ABLATIONS[name]))
    assert bool(ABLATIONS[name]) == (load_recipe(PRINTED, ABLATIONS[name]) != load_recipe(PRINTED))


def test_the_prior_is_told_once_for_each_seed_behind_all_others() -> None:
    names = ("a", FLOOR, "b", FLOOR)
    rows = [{"variant": name, "seed": seed, "notes": n} for seed in (1, 2) for n in (10, 20) for name in names]
    told = [(row["seed"], row["notes"]) for row in once(rows, "notes")[-4:] if row["variant"] == FLOOR]
    assert told == [(1, 10), (1, 20), (2, 10), (2, 20)]
    assert len(once(rows, "notes")) == 12
    assert [row["seed"] for row in CLAIMS["ablation"].settled(rows) if row["variant"] == FLOOR] == [1, 2]


def test_measures_of_a_claim_have_intervals_over_notes_where_resampling_gives_one(source: Path) -> None:
    findings = proved("rare", source, recipes=("tfidf", "prior"))
    row = findings.rows[0]
    assert row["micro-F1 low"] <= row["micro-F1"] <= row["micro-F1 high"]
    assert "macro-AUC low" not in row
    cell = dict(zip(findings.header, next(findings.table()), strict=True))["micro-F1"]
    assert cell == f"{row['micro-F1']:.4f} ({row['micro-F1 low']:.4f}-{row['micro-F1 high']:.4f})"
    written = {path.name: path.read_text() for path in write_findings(findings, source.parent / "rare")}
    table = list(csv.DictReader(written["table.csv"].splitlines()))
    assert float(table[0]["micro-F1 low"]) == pytest.approx(row["micro-F1 low"], abs=1e-6)
    assert table[0]["macro-AUC low"] == ""
    assert "bootstrap" in written["report.html"]


def test_the_rarest_codes_have_a_fitted_and_a_reported_note() -> None:
    scored = scored_densely(
        np.zeros((2, 5), np.float32), ids=["a", "b"], codes=["A", "B", "C", "D", "E"],
        gold=[["A", "B", "C"], ["E", "D"]], thresholds=0.5, train_counts=np.array([3, 0, 1, 1, 9]), train_documents=9,
    )  # fmt: skip
    assert rarest(scored, 2).tolist() == [False, False, True, True, False]
    assert rarest(scored, 3).tolist() == [True, False, True, True, False]


@pytest.mark.parametrize(
    ("wanted", "notes", "first"),
    [(0.5, 100.0, False), (0.0, 10.0, True), (1.0, 1000.0, False), (1.1, None, False), (0.25, 10**1.5, False)],
)
def test_notes_for_a_value_lie_on_the_line_between_points(wanted: float, notes: float | None, first: bool) -> None:
    found, at_first = notes_for([10, 1000], [0.0, 1.0], wanted)
    assert (found is None) == (notes is None)
    assert found == (None if notes is None else pytest.approx(notes, rel=1e-5))
    assert at_first is first


def test_the_factor_of_notes_saved_is_that_of_the_mean_curves() -> None:
    twin = [(seed, n, 0.5 * np.log10(n / 10)) for seed in (1, 2) for n in (10, 100, 1000)]
    planted = [(seed, n, value + 0.5 + 0.02 * (seed - 1.5)) for (seed, n, value) in twin]
    saved = data_saved(planted, twin)
    assert saved.factor == pytest.approx(10.0, rel=1e-4)
    assert saved.low is not None and saved.high is not None and saved.low < 10 < saved.high  # noqa: PT018
    assert data_saved(twin, planted).factor is None
    assert data_saved(planted[:1], twin[:1]).least


def test_findings_name_the_paper_and_each_system() -> None:
    rows = [
        {"system": system, "seed": 1, "notes": n, "P@5": value * n, "P@15": value * n, "MAP": 0.0}
        for n in (10, 100)
        for system, value in (("planted", 0.01), ("twin", 0.005))
    ]
    said = low_shot_findings(rows)
    assert said[0] == "P@5: planted does with 1/3.6 of the notes what twin does with all"
    assert "paper" in said[-1]


def test_overfitting_is_said_by_the_least_loss_and_the_last() -> None:
    rows = [{"system": "a", "seed": 1, "epoch": e, "choosing loss": loss} for e, loss in ((1, 3.0), (2, 2.0), (3, 4.0))]
    assert overfit_findings(rows) == [
        "a: the loss of choosing notes is least after epoch 2 (2.000) and 2.00 times that after epoch 3"
    ]


def test_seeds_whose_draws_leave_a_note_more_stand_at_one_point_of_the_curve() -> None:
    """Otherwise the last point of the twin's curve is that of one seed alone, and the factor is reckoned from it."""
    counted = [("few", 1, 25), ("few", 2, 25), ("all", 1, 458), ("all", 2, 459)]
    rows = [{"variant": name, "seed": seed, "notes": notes} for name, seed, notes in counted]
    assert [row["notes"] for row in low_shot_settled(rows)] == [25, 25, 458, 458]
    drawn = [{**row, "variant": FLOOR, "drawn": row["variant"]} for row in rows]
    assert [row["notes"] for row in low_shot_settled([*rows, *drawn])] == [25, 25, 458, 458] * 2


def test_two_variants_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = [Variant("one", "prior"), Variant("one", "tfidf")]
    with pytest.raises(InputError, match="share a folder"):
        rows_of_variants(twice, (1,), Notes("demo"), tmp_path, lambda run, notes: [])


def test_a_missing_source_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["study", "rare", "--corpus", "nowhere.csv", "--out", str(tmp_path)])
    assert end.value.code == 2
    assert "nowhere.csv" in capsys.readouterr().err
