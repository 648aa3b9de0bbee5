"""Steps declare what decides them: digests follow, nothing undeclared is read, all who walk find the same work."""

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plant.cli.main import main
from plant.recipe.reading import load_recipe, named_recipes
from plant.recipe.schema import Rank, Recipe, Relate
from plant.steps.fit import every_step, fit_coder, plan_of
from plant.steps.step import EVERYTHING, Root, Step, WalkSettings, Work, always, planned, walk
from plant.store.artifact import save_artifact
from plant.store.keeper import InFolder, Kind
from tests.made_up import corpus_of, notes_of

TINY = ("--set", "prepare.min_count=1", "--set", "rank.epochs=2", "--set", "rank.size=8", "--set", "fit.epochs=1",
        "--set", "pretrain.embedding=8", "--set", "pretrain.hidden=8", "--set", "pretrain.layers=1",
        "--set", "pretrain.epochs=1", "--set", "fit.frozen_epochs=0")  # fmt: skip


def plant(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code == 0


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    (tmp_path / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    return tmp_path / "notes.csv"


def test_what_single_verbs_made_in_its_folder_a_run_does_not_make_again(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    plant("prepare", notes, "--out", run / "corpus", *TINY)
    plant("relate", run / "corpus", "--out", run / "relevance", *TINY)
    plant("rank", run / "relevance", "--out", run / "ranker", *TINY)
    plant("pretrain", run / "corpus", "--out", run / "language-model-forward", *TINY)
    capsys.readouterr()
    plant("run", notes, "--out", run, "--recipe", "plant", *TINY)
    said = capsys.readouterr().err
    for thing in ("corpus", "ranker", "language-model-forward"):
        assert f"{thing}: already there, unchanged" in said
    assert "relevance: made" not in said
    assert "coder: made" in said


def test_what_a_run_made_single_verbs_do_not_make_again(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    plant("run", notes, "--out", run, "--recipe", "plant", *TINY)
    capsys.readouterr()
    plant("relate", run / "corpus", "--out", run / "relevance", *TINY)
    plant("rank", run / "relevance", "--out", run / "ranker", *TINY)
    plant("pretrain", run / "corpus", "--out", run / "language-model-forward", *TINY)
    assert capsys.readouterr().err.count("already there, unchanged") == 3


def made(log: list[str], name: str, needs: tuple[str, ...], sections: tuple[str, ...] = ()) -> Step:
    """A step that writes its name into a log and makes a number."""

    def make(work: Work) -> int:
        log.append(name)
        return 1 + sum(work[need] for need in needs)

    return Step(name, make, always(*needs), sections, NUMBER)


def _save(number: int, path: Path, *, recipe: Any, inputs: Any) -> None:
    save_artifact(path, "number", tensors={}, recipe=recipe, inputs=inputs, facts={"number": number})


def _load(path: Path) -> int:
    from plant.store.artifact import read_manifest

    return int(read_manifest(path, "number").facts["number"])


NUMBER = Kind("number", _save, _load)


def walked(tmp_path: Path, recipe: Recipe, wanted: str = "c") -> tuple[int, list[str]]:
    log: list[str] = []
    steps = [made(log, "a", ("corpus",), ("relate",)), made(log, "b", ("a",), ("rank",)), made(log, "c", ("a", "b"))]
    found = walk([planned(step, recipe) for step in steps], {"corpus": Root(0, "x")}, WalkSettings(InFolder(tmp_path)))
    return found[wanted], log


def test_each_thing_is_made_once_and_only_what_is_asked_for(tmp_path: Path) -> None:
    assert walked(tmp_path, Recipe(), "a") == (1, ["a"])
    assert walked(tmp_path, Recipe()) == (4, ["c", "b"])
    assert walked(tmp_path, Recipe()) == (4, [])


@pytest.mark.parametrize(
    ("change", "again"),
    [(Recipe(relate=Relate(keep=7)), ["c", "a", "b"]), (Recipe(rank=Rank(size=7)), ["c", "b"]), (Recipe(seed=9), [])],
)
def test_a_change_of_a_section_makes_anew_what_it_decides_and_all_after_it(
    tmp_path: Path, change: Recipe, again: list[str]
) -> None:
    walked(tmp_path, Recipe())
    assert sorted(walked(tmp_path, change)[1]) == sorted(again)


def test_what_is_there_counts_even_where_what_it_was_made_from_is_gone(tmp_path: Path) -> None:
    walked(tmp_path, Recipe())
    for name in ("a", "b"):
        for file in (tmp_path / name).iterdir():
            file.unlink()
        (tmp_path / name).rmdir()
    assert walked(tmp_path, Recipe()) == (4, [])


def test_a_step_cannot_read_what_it_did_not_declare() -> None:
    def peek(work: Work) -> object:
        return work["choosing"]

    def peek_section(work: Work) -> object:
        return work.section(Rank)

    def peek_seed(work: Work) -> object:
        return work.seed

    for make, error in ((peek, KeyError), (peek_section, StopIteration), (peek_seed, AssertionError)):
        step = Step("nosy", make, always("corpus"), ("relate",))
        with pytest.raises(error):
            walk([planned(step, Recipe())], {"corpus": Root(0), "choosing": Root(1)})["nosy"]


def test_what_is_let_go_is_not_held_after_its_use() -> None:
    class Large: ...

    seen: list[weakref.ref[Large]] = []

    def make(work: Work) -> Large:
        seen.append(weakref.ref(thing := Large()))
        return thing

    def use(work: Work) -> bool:
        return isinstance(work["large"], Large)

    large, user = Step("large", make, always(), let_go=True), Step("user", use, always("large"))
    steps = walk([planned(large, Recipe()), planned(user, Recipe())], {})
    assert steps["user"]
    assert steps["user"]  # and not used again
    assert [one() for one in seen] == [None]


@pytest.mark.parametrize("name", named_recipes())
def test_every_step_of_a_recipe_needs_only_what_its_plan_makes(name: str) -> None:
    plan = list(plan_of(load_recipe(name)))
    known = {"corpus", *(one.name for one in plan)}
    for one in plan:
        assert set(one.needs.values()) <= known, one.name


def test_no_step_that_fits_sees_more_than_the_fitted_notes() -> None:
    held_out = {"corpus", "choosing"}
    seeing = {step.name for step in every_step() if held_out & set(step.needs(Recipe()))}
    assert seeing == {"view", "choosing", "unlabelled", "language-model", "transformer", "model", "coder"}


def test_members_with_different_relevance_keep_both(tmp_path: Path) -> None:
    for name, named in (("one", 0.0), ("two", 4.0)):
        (tmp_path / f"{name}.toml").write_text(
            f'extends = "plant-demo"\n[relate]\nnamed = {named}\n[fit]\nepochs = 1\n[rank]\nepochs = 1\n'
        )
    both = tmp_path / "both.toml"
    both.write_text(f'members = ["{tmp_path / "one.toml"}", "{tmp_path / "two.toml"}"]\n[prepare]\nmin_count = 1\n')
    made: list[str] = []
    corpus = corpus_of(notes_of(40))
    for _ in range(2):
        keeper = InFolder(tmp_path / "run", lambda name, new: made.append(name) if new else None)
        fit_coder(corpus, load_recipe(str(both)), WalkSettings(keeper), digest="x")
    assert sorted(made) == ["coder", "member1-ranker", "member1-relevance", "ranker", "relevance"]


def test_sections_that_a_step_declares_are_sections_of_recipes() -> None:
    for step in every_step():
        assert set(step.sections) <= set(EVERYTHING)


def test_a_recipe_with_another_seed_is_another_coder() -> None:
    recipe = load_recipe("plant-demo")
    keys = {walk(plan_of(one), {"corpus": Root(None)}).key("coder") for one in (recipe, replace(recipe, seed=2))}
    assert len(keys) == 2
