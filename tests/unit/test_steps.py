"""Steps declare what decides them: digests follow, nothing undeclared is read, all who walk find the same work."""

import os
import sys
import weakref
from dataclasses import make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from plant.cli.main import main
from plant.recipe.reading import load_recipe, named_recipes
from plant.recipe.schema import Rank, Recipe, Relate
from plant.steps.constants import digest_of_constants
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


def apart(name: str, tmp_path: Path, *, fails_apart: bool = False) -> Step:
    """A step that writes down which process made it; it may fail in any other process than this one."""
    own = os.getpid()

    def make(work: Work) -> int:
        if fails_apart and os.getpid() != own:
            raise ValueError("not here")
        with (tmp_path / "processes").open("a") as log:
            log.write(f"{name} {os.getpid()}\n")
        return len(name) + work["first"]

    return replace(made([], name, ("first",)), make=make, apart=True)


def walked_apart(tmp_path: Path, *steps: Step, processes: int = 2) -> tuple[int, dict[str, int]]:
    """What a step makes of all those that may be made apart, and the processes that made them."""
    log: list[str] = []

    def joined(work: Work) -> int:
        work.ahead(*(step.name for step in steps))
        return sum(work[step.name] for step in steps)

    last = Step("last", joined, always(*(step.name for step in steps)))
    plan = [planned(step, Recipe()) for step in (made(log, "first", ("corpus",)), *steps, last)]
    settings = WalkSettings(InFolder(tmp_path), processes=processes)
    total = walk(plan, {"corpus": Root(0, "x")}, settings)["last"]
    assert log in (["first"], [])  # made before any process, for all of them
    lines = (tmp_path / "processes").read_text().splitlines()
    return total, {line.split()[0]: int(line.split()[1]) for line in lines}


@pytest.mark.skipif(sys.platform != "linux", reason="forks are taken on Linux alone")
def test_steps_that_may_be_made_apart_are_made_in_processes_and_only_where_they_are_missing(tmp_path: Path) -> None:
    steps = [apart(name, tmp_path) for name in ("a", "bb", "ccc")]
    total, by = walked_apart(tmp_path, *steps)
    assert total == 9
    assert len({*by.values(), os.getpid()}) == 4
    assert walked_apart(tmp_path, *steps) == (total, by)
    (tmp_path / "alone").mkdir()
    _, by = walked_apart(tmp_path / "alone", *(apart(step.name, tmp_path / "alone") for step in steps), processes=1)
    assert set(by.values()) == {os.getpid()}


def test_what_fails_in_another_process_is_made_in_this_one(tmp_path: Path) -> None:
    total, by = walked_apart(tmp_path, apart("a", tmp_path, fails_apart=True), apart("bb", tmp_path))
    assert total == 5
    assert by["a"] == os.getpid()


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


def keys_of_candidates() -> dict[str, str]:
    digest_of_constants.cache_clear()
    steps = walk(plan_of(load_recipe("candidates")), {"corpus": Root(None, "x")})
    return {name: steps.key(name) for name in ("reader0", "reader", "candidates", "coder")}


@pytest.mark.parametrize(
    ("constant", "changed"),
    [
        ("tagging.TEMPLATES", {"reader0", "reader", "candidates", "coder"}),
        ("places.FinderOptions", {"reader0", "reader", "candidates", "coder"}),
        ("span_features.REACH", {"candidates", "coder"}),
        ("judge.SPANS", {"coder"}),
    ],
)
def test_what_a_constant_of_candidates_decides_is_made_anew_when_it_changes(
    constant: str, changed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keys_of_candidates()
    with monkeypatch.context() as patched:
        patched.setattr(f"plant.candidates.{constant}", make_dataclass("Changed", [("threshold", float, 0.5)]))
        after = keys_of_candidates()
    assert {name for name in before if before[name] != after[name]} == changed
    assert keys_of_candidates() == before
