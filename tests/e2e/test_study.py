"""A study fits recipes on the same notes, goes on where it was stopped, and leaves one table."""

import csv
import errno
import fcntl
import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.cli.main import main
from plant.cluster.local import Local
from plant.data.sources import open_source
from plant.data.sources.options import SourceOptions
from plant.errors import InputError, RecipeError
from plant.recipe.reading import named_recipes
from plant.steps.log import TrainingLog
from plant.store.artifact import read_manifest
from plant.studies.fittings import Cost, Fitting, Notes
from plant.studies.processes import Spent, in_own_process
from plant.studies.running import Call, gigabytes_of, last_words, minutes_left, minutes_spent
from plant.studies.study import Study, recipes_of, study
from plant.studies.tables import write_study
from plant.train.history import ClassifierEpoch
from tests.commands import in_this_process
from tests.made_up import notes_of

TINY = ("prepare.min_count=1", "vectors.size=8", "fit.epochs=1")
RECIPES, SEEDS, PLAN = ("prior", "caml-small"), (1, 2), ("--report", "test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    (folder / "broken.toml").write_text('extends = "interaction"\n[naming]\nsynonyms = "gone.tsv"\n')
    return folder


def studied(
    folder: Path, recipes: tuple[str, ...], seeds: tuple[int, ...], *further: str, call: Call | None = None
) -> tuple[Study, list[str]]:
    said: list[str] = []
    source, out = str(folder / "notes.csv"), folder / "out"
    return study(
        recipes, seeds, Notes(source, PLAN), out, overrides=(*TINY, *further), say=said.append, call=call
    ), said


@pytest.fixture(scope="module")
def done(folder: Path) -> Study:
    return studied(folder, RECIPES, SEEDS, call=in_this_process)[0]


@pytest.mark.slow
@pytest.mark.usefixtures("done")
def test_runs_side_by_side_end_in_the_same_bits(folder: Path, tmp_path: Path) -> None:
    """The broken one is told, and stops nobody."""
    source, said = str(folder / "notes.csv"), list[str]()
    recipes = ("prior", str(folder / "broken.toml"))
    result = study(recipes, (1,), Notes(source, PLAN), tmp_path, overrides=TINY, say=said.append, pool=Local(2))
    apart, alone = (read_manifest(out / "prior-seed1" / "coder").digest for out in (tmp_path, folder / "out"))
    assert apart == alone
    assert result.failed == (f"{folder / 'broken.toml'}, seed 1",)
    assert any("failed" in line and "gone.tsv" in line for line in said)


def study_often(folder: Path, seed: int, together: Any, failed: "multiprocessing.SimpleQueue[str]") -> None:
    """What one of several studies does: all begin at once, in one folder, again and again."""
    for number in range(50):
        together.wait()
        out = folder / "together" / str(number)
        try:
            found = study(("plant-bow",), (seed,), Notes(str(folder / "notes.csv"), PLAN), out, overrides=TINY[:1],
                          call=in_this_process)  # fmt: skip
            assert not found.failed, last_words(out / f"plant-bow-seed{seed}")
        except BaseException as error:
            failed.put(repr(error))


def test_a_run_asks_for_the_memory_that_its_recipe_took(tmp_path: Path) -> None:
    """With another seed and a fifth more; of a recipe that nobody ran, four gigabytes."""
    runs = [(Fitting(name, seed, tmp_path / f"{name}-{seed}"), ()) for seed in (1, 2) for name in ("small", "new")]
    (tmp_path / "small-1").mkdir()
    (tmp_path / "small-1" / "cost.json").write_text(json.dumps({"minutes": 1, "peak_megabytes": 500, "parameters": 9}))
    assert [gigabytes_of(runs, [run]) for run in runs] == pytest.approx([0.6, 4.0, 0.6, 4.0])
    assert gigabytes_of(runs, runs) == 4.0


@pytest.mark.slow
def test_four_studies_that_share_a_folder_never_fail(folder: Path) -> None:
    """Each of another seed, fifty times: one corpus and one relevance, the coders that each would make alone."""
    fork = multiprocessing.get_context("fork")
    failed, together = fork.SimpleQueue(), fork.Barrier(4)
    studies = [fork.Process(target=study_often, args=(folder, seed, together, failed)) for seed in range(4)]
    for one in studies:
        one.start()
    for one in studies:
        one.join()
    assert failed.empty() or failed.get() == ""
    rounds = sorted((folder / "together").iterdir())
    made = {read_manifest(one / f"plant-bow-seed{seed}" / "coder").digest for one in rounds for seed in range(4)}
    assert (len(rounds), len(made)) == (50, 4)
    for one in rounds:
        assert sorted(path.name.split("-")[0] for path in (one / "shared").iterdir()) == ["corpus", "relevance"]
    assert not list((folder / "together").rglob(".*"))


@pytest.fixture(scope="module")
def changed(folder: Path, done: Study) -> tuple[Study, list[str]]:
    """After `done`, in processes of their own: a recipe that fails, then one fitted before, with another option."""
    return studied(folder, (str(folder / "broken.toml"), "prior"), (2,), "fit.learning_rate=0.1")


def written(folder: Path, recipe: str) -> int:
    return (folder / "out" / f"{recipe}-seed2" / "coder" / "manifest.json").stat().st_mtime_ns


def test_every_recipe_is_fitted_with_every_seed_on_the_same_notes(folder: Path, done: Study) -> None:
    assert {name: row["MAP"].spread.runs for name, row in done.comparison.rows.items()} == dict.fromkeys(RECIPES, 2)
    coders = [folder / "out" / f"{recipe}-seed{seed}" / "coder" for recipe in RECIPES for seed in SEEDS]
    assert len({read_manifest(coder).inputs["corpus"] for coder in coders}) == 1


@pytest.mark.usefixtures("done")
def test_what_runs_share_is_made_once(folder: Path) -> None:
    shared = sorted(path.name.rsplit("-", 1)[0] for path in (folder / "out" / "shared").iterdir())
    assert shared == ["corpus", "word-vectors"]


def test_a_second_call_fits_nothing_again(folder: Path, done: Study) -> None:
    before = [written(folder, recipe) for recipe in RECIPES]
    again, _ = studied(folder, RECIPES, SEEDS, call=in_this_process)
    assert (again.costs, [written(folder, recipe) for recipe in RECIPES]) == (done.costs, before)


def fails_to_run(arguments: Sequence[str], log: Path) -> Spent | None:
    pytest.fail(f"a kept run was fitted again: {arguments}")


def test_a_study_goes_on_from_what_was_kept_where_its_runs_are_gone(folder: Path, done: Study, tmp_path: Path) -> None:
    """The runs of `done` are told again; then nothing but the kept files is at hand."""
    source, keep = str(folder / "notes.csv"), tmp_path / "kept"
    kept = study(RECIPES, SEEDS, Notes(source, PLAN), folder / "out", overrides=TINY, call=fails_to_run, keep=keep)
    assert sorted(path.name for path in keep.iterdir()) == sorted(
        f"{r}-seed{s}.json.gz" for r in RECIPES for s in SEEDS
    )
    again = study(RECIPES, SEEDS, Notes(source, PLAN), tmp_path / "bare", overrides=TINY, call=fails_to_run, keep=keep)
    assert again == kept == done
    assert not (tmp_path / "bare").exists()


@pytest.mark.usefixtures("done")
def test_a_table_so_far_fits_nothing_and_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    source, said = str(folder / "notes.csv"), list[str]()
    told = {"overrides": TINY, "say": said.append, "call": fails_to_run, "so_far": True}
    found = study((*RECIPES, "tfidf"), SEEDS, Notes(source, PLAN), folder / "out", **told)  # type: ignore[arg-type]
    assert list(found.comparison.rows) == [*RECIPES]
    assert found.failed == ("tfidf, seed 1", "tfidf, seed 2")
    assert said[0] == "2 of 6 runs are not there yet"
    assert not (folder / "out" / "tfidf-seed1").exists()
    with pytest.raises(InputError, match="no run of the study is there yet"):
        study(RECIPES, SEEDS, Notes(source, PLAN), tmp_path / "none", **told)  # type: ignore[arg-type]
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("done")
def test_what_was_kept_names_neither_notes_nor_codes(folder: Path, tmp_path: Path) -> None:
    source, keep = str(folder / "notes.csv"), tmp_path / "kept"
    study(RECIPES, SEEDS, Notes(source, PLAN), folder / "out", overrides=TINY, call=fails_to_run, keep=keep)
    files = [gzip.decompress(path.read_bytes()).decode() for path in keep.iterdir()]
    names = {name for note in open_source(source).notes() for name in (note.id, *note.codes)}
    assert not [name for name in names if any(f'"{name}"' in file for file in files)]


def test_what_was_kept_of_something_else_is_fitted_anew(folder: Path, done: Study, tmp_path: Path) -> None:
    source, keep, fitted = str(folder / "notes.csv"), tmp_path / "kept", list[Sequence[str]]()
    study(("prior",), (1,), Notes(source, PLAN), folder / "out", overrides=TINY, call=fails_to_run, keep=keep)

    def noted(arguments: Sequence[str], log: Path) -> Spent | None:
        fitted.append(arguments)
        return in_this_process(arguments, log)

    changed = (*TINY, "fit.learning_rate=0.1")
    study(("prior",), (1,), Notes(source, PLAN), tmp_path / "out", overrides=changed, call=noted, keep=keep)
    assert len(fitted) == 1


def test_a_damaged_kept_run_is_named(folder: Path, done: Study, tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    keep.mkdir()
    (keep / "prior-seed1.json.gz").write_bytes(b"half a file")
    with pytest.raises(InputError, match=r"prior-seed1\.json\.gz.* is no kept run: delete it"):
        study(("prior",), (1,), Notes(str(folder / "notes.csv"), PLAN), tmp_path / "out", overrides=TINY, keep=keep)


@pytest.mark.usefixtures("done")
def test_a_changed_recipe_is_fitted_anew(folder: Path, request: pytest.FixtureRequest) -> None:
    before = written(folder, "prior")
    request.getfixturevalue("changed")
    assert written(folder, "prior") > before


def test_a_run_in_a_process_of_its_own_tells_its_time_and_memory(changed: tuple[Study, list[str]]) -> None:
    cost = changed[0].costs["prior"]
    assert cost.minutes > 0
    assert cost.peak_megabytes > 50
    assert 0 < cost.cpu_minutes < 10


def test_a_recipe_that_fails_does_not_stop_the_others(folder: Path, changed: tuple[Study, list[str]]) -> None:
    result, said = changed
    assert result.failed == (f"{folder / 'broken.toml'}, seed 2",)
    assert list(result.comparison.rows) == ["prior"]
    assert any("failed" in line and "gone.tsv" in line for line in said)


def test_an_unknown_recipe_is_told_before_any_is_fitted(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(RecipeError, match="nonsense"):
        study(("prior", "nonsense"), SEEDS, Notes("notes.csv"), tmp_path / "out", say=said.append)
    assert not said


def test_an_unknown_option_of_a_part_is_told_before_any_is_fitted(folder: Path) -> None:
    (folder / "colourful.toml").write_text('[encoder]\nname = "cnn"\ncolour = "blue"\n')
    with pytest.raises(RecipeError, match="colour"):
        studied(folder, ("prior", str(folder / "colourful.toml")), (3,), call=lambda arguments, log: pytest.fail("run"))


def test_a_missing_corpus_is_told_before_any_is_fitted(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(InputError, match="no file or folder 'nowhere.csv'"):
        study(("prior",), SEEDS, Notes("nowhere.csv"), tmp_path / "out", say=said.append)
    assert not said


def test_a_study_reads_its_notes_as_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{note.text}\t{'|'.join(note.codes)}\t{note.split}" for note in notes_of(40)]
    (tmp_path / "notes.tsv").write_text("\n".join(["words\tkeys\tsplit", *rows]) + "\n")
    reading = ["--id-column", "-", "--text-column", "words", "--codes-column", "keys", "--separator", "|"]
    plan = ["--report", "test", "--seeds", "1", "--out", str(tmp_path / "out"), "--set", "prepare.min_count=1"]
    for name, recipes in (("baselines", "prior,tfidf"), ("rare", "tfidf")):
        with pytest.raises(SystemExit) as end:
            main(["study", name, "--corpus", str(tmp_path / "notes.tsv"), "--recipes", recipes, *plan, *reading])
        assert end.value.code in (0, None)
        assert "tfidf" in capsys.readouterr().out


def test_another_table_of_codes_is_another_study(tmp_path: Path) -> None:
    (tmp_path / "codes.tsv").write_text("code\tdescription\nC1\tone\n")
    notes = Notes("demo", read=SourceOptions(codebook=str(tmp_path / "codes.tsv")))
    before = notes.digest
    (tmp_path / "codes.tsv").write_text("code\tdescription\nC1\ttwo\n")
    assert len({before, notes.digest, Notes("demo").digest}) == 3


@pytest.mark.parametrize("recipes", ["", "prior,", ","])
def test_recipes_without_a_name_are_refused(recipes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["study", "--corpus", "demo", "--recipes", recipes, "--out", str(tmp_path / "out")])
    assert end.value.code == 2
    assert "--recipes" in capsys.readouterr().err


def test_a_run_that_was_cut_short_and_ended_later_costs_both(folder: Path, tmp_path: Path) -> None:
    def cut_short(arguments: Sequence[str], log: Path) -> Spent | None:
        log.write_text("half")
        raise KeyboardInterrupt

    source, options = str(folder / "notes.csv"), {"overrides": TINY}
    with pytest.raises(KeyboardInterrupt):
        study(("prior",), (1,), Notes(source, PLAN), tmp_path, **options, call=cut_short)  # type: ignore[arg-type]
    spent, log = tmp_path / "prior-seed1" / "spent.json", tmp_path / "prior-seed1" / "run.log"
    ten_minutes_later = json.loads(spent.read_text())["started"] + 600
    os.utime(log, (ten_minutes_later, ten_minutes_later))
    result = study(("prior",), (1,), Notes(source, PLAN), tmp_path, **options, call=in_this_process)  # type: ignore[arg-type]
    assert 10 < result.costs["prior"].minutes < 12
    assert not spent.exists()


def test_time_spent_on_other_things_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("half")
    (tmp_path / "spent.json").write_text(json.dumps({"made_from": "a", "minutes": 3.0, "started": 0.0}))
    assert minutes_spent(tmp_path, "a") > 3
    assert minutes_spent(tmp_path, "b") == 0


def test_a_bug_is_told_by_its_name_and_where_its_traceback_is(tmp_path: Path) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "x.py", line 1\n    f()\nRuntimeError: sizes differ\n\nshape a\n'
    )
    (tmp_path / "run.log").write_text(f"reading notes\n{trace}")
    assert last_words(tmp_path) == f"RuntimeError: sizes differ (a bug: its traceback is in {tmp_path / 'run.log'})"
    (tmp_path / "run.log").write_text("reading notes\nplant: no such file\n")
    assert last_words(tmp_path) == "plant: no such file"


def test_a_run_that_failed_before_it_said_anything_has_no_last_words(tmp_path: Path) -> None:
    assert last_words(tmp_path) == "without a word"


def test_a_folder_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(lines: object, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refused)
    with pytest.raises(InputError, match="on a file system without locks"):
        in_own_process(["parts"], tmp_path / "run.log")


def locked(log: Path) -> bool:
    """Whether a run writes this log."""
    try:
        with log.open("a") as lines:
            fcntl.flock(lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def wait_until(fact: Callable[[], bool]) -> None:
    """However crowded the machine is; that it never comes true is told by the timeout of the test."""
    while not fact():
        time.sleep(0.1)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_ends_with_the_study_that_started_it(tmp_path: Path, number: signal.Signals) -> None:
    os.mkfifo(tmp_path / "notes.csv")  # nobody writes it: who reads it waits for ever
    log, arguments = tmp_path / "run.log", ["prepare", str(tmp_path / "notes.csv"), "--out", str(tmp_path / "out")]
    start = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))"
    call = f"from pathlib import Path; in_own_process({arguments!r}, Path({str(log)!r}))"
    command = [sys.executable, "-c", f"{start}; from plant.studies.processes import in_own_process; {call}"]
    with subprocess.Popen(command) as process:
        wait_until(lambda: log.is_file() and locked(log))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: bool(children.read_text()))  # there is a run
        assert process.poll() is None
        process.send_signal(number)
        process.wait()
    wait_until(lambda: not locked(log))


def test_an_epoch_that_is_trained_again_is_told_once(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path / "training.jsonl")
    for member, number in (("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 2)):
        log.write(member, ClassifierEpoch(number, "all", 0.5, {}, 1.0))
    rows = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [(row["member"], row["number"]) for row in rows] == [("a", 1), ("b", 1), ("a", 2)]
    assert [path.name for path in tmp_path.iterdir()] == ["training.jsonl"], "TensorBoard is told by option alone"


def test_the_table_is_written_for_people_and_for_programs(done: Study, tmp_path: Path) -> None:
    write_study(done, tmp_path / "table")
    whole = json.loads((tmp_path / "table.json").read_text())
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["system"] for row in rows] == list(whole["systems"]) == ["prior", "caml-small"]
    value = done.comparison.rows["caml-small"]["MAP"].spread.mean
    assert float(rows[1]["MAP mean"]) == whole["systems"]["caml-small"]["measures"]["MAP"]["mean"] == value
    text = (tmp_path / "table.md").read_text()
    assert f"{value:.4f}" in text
    assert "macro-F1 (mean of labels)" in text
    assert "macro-F1 (of macro-P and macro-R)" in text
    assert all(cost in text for cost in ("minutes", "peak MB", "parameters"))
    assert done.costs["caml-small"].parameters > 1000
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(line["system"], line["seed"]) for line in lines] == [(name, seed) for name in RECIPES for seed in SEEDS]
    assert np.mean([line["MAP"] for line in lines if line["system"] == "caml-small"]) == pytest.approx(value)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert f"{value:.4f}" in page


def test_a_comparison_runs_quickly_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["study", "baselines", "--corpus", str(folder / "notes.csv"), *PLAN, "--quick", "--out", str(tmp_path)])
    assert end.value.code in (0, None)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["system"], row["seed"]) for row in rows] == [("tfidf", 1), ("prior", 1)]
    assert "tfidf" in capsys.readouterr().out


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
