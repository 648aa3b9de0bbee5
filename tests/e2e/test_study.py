"""A study fits recipes on the same notes, goes on where it was stopped, and leaves one table."""

import csv
import json
from pathlib import Path

import pytest

from plant.artifact import read_manifest
from plant.errors import RecipeError
from plant.pipeline.study import Cost, Fitting, Study, minutes_left, recipes_of, study
from plant.pipeline.study_tables import write_study
from plant.recipe import named_recipes
from tests.made_up import notes_of

TINY = ("prepare.min_count=1", "vectors.size=8", "fit.epochs=1")
SEEDS, PLAN = (1, 2), ("--report", "test")


def fitted(folder: Path) -> tuple[Study, list[str]]:
    said: list[str] = []
    source, recipes = str(folder / "notes.csv"), ("prior", "caml-small", str(folder / "broken.toml"))
    return study(recipes, SEEDS, source, PLAN, folder / "out", overrides=TINY, told=said.append), said


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Study, list[str]]:
    folder = tmp_path_factory.mktemp("study")
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(60)]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    (folder / "broken.toml").write_text('[encoder]\nname = "cnn"\ncolour = "blue"\n')
    return folder, *fitted(folder)


def test_every_recipe_is_fitted_with_every_seed_on_the_same_notes(done: tuple[Path, Study, list[str]]) -> None:
    folder, result, _ = done
    assert {name: row["MAP"].spread.runs for name, row in result.comparison.rows.items()} == {
        "prior": 2,
        "caml-small": 2,
    }
    corpora = {
        read_manifest(folder / "out" / f"{recipe}-seed{seed}" / "coder").inputs["corpus"]
        for recipe in ("prior", "caml-small")
        for seed in SEEDS
    }
    assert len(corpora) == 1


def test_what_runs_share_is_made_once(done: tuple[Path, Study, list[str]]) -> None:
    shared = sorted(path.name.rsplit("-", 1)[0] for path in (done[0] / "out" / "shared").iterdir())
    assert shared == ["corpus", "word-vectors"]


def test_a_recipe_that_fails_does_not_stop_the_others(done: tuple[Path, Study, list[str]]) -> None:
    folder, result, said = done
    assert result.failed == tuple(f"{folder / 'broken.toml'}, seed {seed}" for seed in SEEDS)
    assert any("failed" in line and "colour" in line for line in said)


def test_an_unknown_recipe_is_told_before_any_is_fitted(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(RecipeError, match="nonsense"):
        study(("prior", "nonsense"), SEEDS, "notes.csv", [], tmp_path / "out", told=said.append)
    assert not said


def test_a_second_call_fits_nothing_again_and_a_changed_recipe_anew(done: tuple[Path, Study, list[str]]) -> None:
    folder, result, _ = done
    manifest, source = folder / "out" / "caml-small-seed2" / "coder" / "manifest.json", str(folder / "notes.csv")
    before = manifest.stat().st_mtime_ns
    again = study(("prior", "caml-small"), SEEDS, source, PLAN, folder / "out", overrides=TINY)
    assert (again.costs, manifest.stat().st_mtime_ns) == (result.costs, before)
    study(("caml-small",), (2,), source, PLAN, folder / "out", overrides=(*TINY, "fit.learning_rate=0.1"))
    assert manifest.stat().st_mtime_ns > before


def test_the_table_is_written_for_people_and_for_programs(done: tuple[Path, Study, list[str]], tmp_path: Path) -> None:
    _, result, _ = done
    write_study(result, tmp_path / "table")
    whole = json.loads((tmp_path / "table.json").read_text())
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["system"] for row in rows] == list(whole["systems"]) == ["prior", "caml-small"]
    value = result.comparison.rows["caml-small"]["MAP"].spread.mean
    assert float(rows[1]["MAP mean"]) == whole["systems"]["caml-small"]["measures"]["MAP"]["mean"] == value
    text = (tmp_path / "table.md").read_text()
    assert f"{value:.4f}" in text
    assert "macro-F1 (mean of labels)" in text
    assert "macro-F1 (of macro-P and macro-R)" in text
    assert all(cost in text for cost in ("minutes", "peak MB", "parameters"))


def test_time_left_is_what_recipes_took_before_and_the_mean_for_new_ones() -> None:
    one, again, other, new = (Fitting(*what, Path()) for what in (("a", 1), ("a", 2), ("b", 1), ("c", 1)))
    costs = {one: Cost(2.0, 0.0, 0), other: Cost(4.0, 0.0, 0)}
    assert minutes_left([again, new], costs) == 2.0 + 3.0


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("name", ["baselines", "planting"])
def test_studies_name_recipes_that_exist(name: str, gpu: bool) -> None:
    recipes = recipes_of(name, gpu=gpu)
    assert set(recipes) <= set(named_recipes())
    assert any(recipe.endswith("-small") for recipe in recipes) == (name == "baselines" and not gpu)
