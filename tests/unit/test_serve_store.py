"""The desk's store: what was acknowledged stays, nothing is lost between two people, the trail cannot be forged."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from plant.errors import PlantError
from plant.serve.problems import Problem
from plant.serve.schemas import Change, Place
from plant.serve.store import Step, Store, Who

ANNA, BERT = Who("anna"), Who("bert")
ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from plant.serve.schemas import Change
from plant.serve.store import Step, Store, Who
store, note = Store(sys.argv[1]), sys.argv[2]
start = store.version(note)
for version in range(start, start + 100_000):
    store.decide(Step(Who("anna"), note, version), [Change(code=f"C{version}", verdict="accept")])
    print(version + 1, flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "desk.sqlite")


def accept(code: str, *places: tuple[int, int]) -> Change:
    evidence = [Place(start=start, end=end) for start, end in places] or None
    return Change(code=code, verdict="accept", evidence=evidence)


def test_decisions_and_marks_are_there_when_the_store_is_opened_again(tmp_path: Path) -> None:
    first = Store(tmp_path / "desk.sqlite")
    note, _ = first.add_note(ANNA, "one", "a dry cough")
    first.decide(Step(ANNA, note, 0), [accept("R05", (2, 11)), Change(code="S62", verdict="reject")])
    first.close()
    found = Store(tmp_path / "desk.sqlite").decisions(note)
    assert [(row["code"], row["verdict"], row["evidence"]) for row in found] == [
        ("R05", "accept", [{"start": 2, "end": 11}]),
        ("S62", "reject", []),
    ]


def test_who_comes_second_is_told_and_loses_nothing(store: Store) -> None:
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    store.decide(Step(ANNA, note, 0), [accept("R05")])
    with pytest.raises(Problem) as refused:
        store.decide(Step(BERT, note, 0), [accept("S62")])
    assert (refused.value.status, refused.value.more["by"]) == (412, "anna")
    assert [row["code"] for row in store.decisions(note)] == ["R05"]


def test_a_request_that_is_sent_again_is_made_once(store: Store) -> None:
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    step = Step(ANNA, note, 0, key="k1")
    assert [store.decide(step, [accept("R05")]) for _ in range(3)] == [1, 1, 1]
    assert store.version(note) == 1


def test_changes_are_made_together_or_not_at_all(store: Store) -> None:
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    with pytest.raises(Problem, match="outside"):
        store.decide(Step(ANNA, note, 0), [accept("R05", (2, 11)), accept("S62", (5, 12))])
    assert (store.version(note), store.decisions(note), len(store.audit())) == (0, [], 1)


def test_the_order_names_every_accepted_code_once(store: Store) -> None:
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    store.decide(Step(ANNA, note, 0), [accept("A"), accept("B"), accept("C")])
    store.decide(Step(ANNA, note, 1), [], ["C", "A", "B"])
    assert [row["code"] for row in store.decisions(note)] == ["C", "A", "B"]
    with pytest.raises(Problem, match="every accepted code"):
        store.decide(Step(ANNA, note, 2), [], ["C", "A"])


def test_clearing_a_decision_takes_its_marks_away(store: Store) -> None:
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    store.decide(Step(ANNA, note, 0), [accept("R05", (2, 5))])
    store.decide(Step(ANNA, note, 1), [Change(code="R05", verdict="none")])
    store.decide(Step(ANNA, note, 2), [accept("R05")])
    assert store.decisions(note)[0]["evidence"] == []


def test_a_note_is_held_until_the_time_is_over_or_it_is_taken(tmp_path: Path) -> None:
    now = [1000.0]
    store = Store(tmp_path / "desk.sqlite", clock=lambda: now[0])
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    assert store.hold(ANNA, note, seconds=60, take=False) == "anna"
    assert store.hold(BERT, note, seconds=60, take=False) == "anna"
    with pytest.raises(Problem, match="anna has this note"):
        store.decide(Step(BERT, note, 0), [accept("R05")])
    now[0] += 61
    assert store.hold(BERT, note, seconds=60, take=False) == "bert"
    assert store.hold(ANNA, note, seconds=60, take=True) == "anna"


def test_a_finished_note_is_changed_by_nobody_until_it_is_reopened(store: Store) -> None:
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    store.finish(Step(ANNA, note, 0))
    with pytest.raises(Problem, match="finished"):
        store.decide(Step(ANNA, note, 1), [accept("R05")])
    store.finish(Step(BERT, note, 1), reopen=True)
    assert store.decide(Step(ANNA, note, 2), [accept("R05")]) == 3


def test_the_same_note_is_put_on_the_desk_once_and_another_text_is_refused(store: Store) -> None:
    first, new = store.add_note(ANNA, "one", "a dry cough")
    assert new
    assert store.add_note(ANNA, "one", "a dry cough") == (first, False)
    with pytest.raises(Problem, match="another text"):
        store.add_note(ANNA, "one", "something else")


def test_the_trail_only_grows_and_tells_a_forgery(tmp_path: Path) -> None:
    store = Store(tmp_path / "desk.sqlite")
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    store.decide(Step(ANNA, note, 0), [accept("R05"), accept("S62")])
    assert store.first_forgery() is None
    with sqlite3.connect(tmp_path / "desk.sqlite") as forger:
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            forger.execute("UPDATE audit SET who = 'bert'")
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            forger.execute("DELETE FROM audit")
        forger.execute("DROP TRIGGER audit_stays")
        forger.execute("UPDATE audit SET who = 'bert' WHERE id = 2")
    assert store.first_forgery() == 2


def test_a_full_disk_is_told_and_what_is_stored_stays_whole(tmp_path: Path) -> None:
    store = Store(tmp_path / "desk.sqlite")
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    store.decide(Step(ANNA, note, 0), [accept("R05")])
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Problem) as refused:
        store.add_note(ANNA, "large", "x" * 1_000_000)
    assert refused.value.status == 507
    assert [row["code"] for row in store.decisions(note)] == ["R05"]
    assert store.counts()["open"] == 1


def test_every_acknowledged_decision_survives_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "desk.sqlite"
    store = Store(path)
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    store.close()
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, str(path), note]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
            assert writer.stdout is not None
            told = [int(writer.stdout.readline()) for _ in range(20)]
            writer.send_signal(signal.SIGKILL)
            told += [int(line) for line in writer.stdout if line.endswith("\n")]
        opened = Store(path)
        assert opened.version(note) >= told[-1]
        assert {f"C{version - 1}" for version in told} <= {row["code"] for row in opened.decisions(note)}
        assert opened.first_forgery() is None
        opened.close()


def test_a_file_that_is_no_store_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are notes, and no database\n" * 100)
    with pytest.raises(PlantError, match="no store of a desk"):
        Store(tmp_path / "notes.txt")


@pytest.mark.parametrize("text", ["a\x00b", "🫁 pulmón", "e\u0301", "ab\r\nשלום"])
def test_texts_come_back_as_they_were_given(store: Store, text: str) -> None:
    note, _ = store.add_note(ANNA, "one", text)
    assert store.note(note)["text"] == text
