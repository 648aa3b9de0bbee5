"""The desk's store: what was acknowledged stays, nothing is lost between two people, the trail cannot be forged."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import DBAPIError

from plant.errors import PlantError
from plant.serve.problems import Problem
from plant.serve.schemas import Change, Place
from plant.serve.store import Step, Store, Who
from plant.serve.tables import METADATA, MIGRATIONS, statements_of

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


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store can be: every test that asks for it is made on both databases."""
    if request.param == "sqlite":
        return str(tmp_path / "desk.sqlite")
    return request.getfixturevalue("postgresql").new_database()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    opened = Store(address)
    yield opened
    opened.close()


def accept(code: str, *places: tuple[int, int]) -> Change:
    evidence = [Place(start=start, end=end) for start, end in places] or None
    return Change(code=code, verdict="accept", evidence=evidence)


def test_decisions_and_marks_are_there_when_the_store_is_opened_again(address: str) -> None:
    first = Store(address)
    note, _ = first.add_note(ANNA, "one", "a dry cough")
    first.decide(Step(ANNA, note, 0), [accept("R05", (2, 11)), Change(code="S62", verdict="reject")])
    first.close()
    with closing(Store(address)) as second:
        found = second.decisions(note)
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


def test_a_note_is_held_until_the_time_is_over_or_it_is_taken(address: str) -> None:
    now = [1000.0]
    store = Store(address, clock=lambda: now[0])
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    assert store.hold(ANNA, note, seconds=60, take=False) == "anna"
    assert store.hold(BERT, note, seconds=60, take=False) == "anna"
    with pytest.raises(Problem, match="anna has this note"):
        store.decide(Step(BERT, note, 0), [accept("R05")])
    now[0] += 61
    assert store.hold(BERT, note, seconds=60, take=False) == "bert"
    assert store.hold(ANNA, note, seconds=60, take=True) == "anna"
    store.close()


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


def forge(address: str, *statements: str) -> None:
    """Change the database behind the back of the store."""
    url = address.replace("postgresql:", "postgresql+psycopg:") if "://" in address else f"sqlite:///{address}"
    forger = create_engine(url)
    try:
        with forger.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))
    finally:
        forger.dispose()


def test_the_trail_only_grows_and_tells_a_forgery(store: Store, address: str) -> None:
    note, _ = store.add_note(ANNA, "one", "a dry cough")
    store.decide(Step(ANNA, note, 0), [accept("R05"), accept("S62")])
    assert store.first_forgery() is None
    for statement in ("UPDATE audit SET who = 'bert'", "DELETE FROM audit"):
        with pytest.raises(DBAPIError, match="only grows"):
            forge(address, statement)
    on_table = " ON audit" if "://" in address else ""
    forge(address, f"DROP TRIGGER audit_stays{on_table}", "UPDATE audit SET who = 'bert' WHERE id = 2")
    assert store.first_forgery() == 2


def test_a_full_disk_is_told_and_what_is_stored_stays_whole(small_disk: Path) -> None:
    with closing(Store(small_disk / "desk.sqlite")) as store:
        note, _ = store.add_note(ANNA, "one", "a dry cough")
        store.decide(Step(ANNA, note, 0), [accept("R05")])
        with pytest.raises(Problem) as refused:
            store.add_note(ANNA, "large", "x" * 2_000_000)
        assert refused.value.status == 507
        assert store.counts()["open"] == 1
        made = 1
        with suppress(Problem):
            while made < 1000:  # small steps fill what is left
                made = store.decide(Step(ANNA, note, made), [accept(f"C{made}")])
        whole = (store.version(note), len(store.decisions(note)), store.first_forgery())
        assert whole == (made, made, None)
        assert made < 1000
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    with closing(Store(small_disk / "desk.sqlite")) as store:  # with space again it goes on where it was
        assert (store.version(note), len(store.decisions(note)), store.first_forgery()) == whole
        assert store.decide(Step(ANNA, note, whole[0]), [accept("S62")]) == whole[0] + 1


def test_many_coders_at_once_lose_no_decision_and_the_late_are_told(address: str) -> None:
    servers = [Store(address) for _ in range(2)]
    note, _ = servers[0].add_note(ANNA, "one", "a dry cough")

    def code_until_done(number: int) -> int:
        """Eight decisions of one coder, who reads again whenever another was faster; how often that was."""
        store, late = servers[number % 2], 0
        for turn in range(8):
            while not in_time(store, Who(f"c{number}"), f"C{number}-{turn}"):
                late += 1
        return late

    def in_time(store: Store, who: Who, code: str) -> bool:
        try:
            return store.decide(Step(who, note, store.version(note)), [accept(code)]) > 0
        except Problem as problem:
            if problem.status != 412:
                raise
            return False

    with ThreadPoolExecutor(4) as pool:
        late = sum(pool.map(code_until_done, range(4)))
    assert len(servers[0].decisions(note)) == servers[1].version(note) == 32
    assert late > 0
    assert servers[0].first_forgery() is None
    for server in servers:
        server.close()


def test_the_tables_are_those_that_we_ask_for(store: Store) -> None:
    engine = store._database._engine
    found = inspect(engine)
    for name, table in METADATA.tables.items():
        assert [column["name"] for column in found.get_columns(name)] == list(table.columns.keys())
    assert set(found.get_table_names()) - {"sqlite_sequence"} == set(METADATA.tables)


def test_a_store_of_the_first_version_goes_on_with_all_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "desk.sqlite"
    with closing(sqlite3.connect(path)) as old:
        for statement in statements_of(MIGRATIONS[0], "sqlite"):
            old.execute(statement)
        old.execute("INSERT INTO notes (id, name, text, sha256, words) VALUES ('n', 'one', 'a dry cough', 'd', 3)")
        old.execute("PRAGMA user_version = 1")
        old.commit()
    with closing(Store(path)) as store:
        assert store.decide(Step(ANNA, "n", 0), [accept("R05", (2, 11))]) == 1
        assert store.keys.add(ANNA, "bert", "coder")
    with closing(sqlite3.connect(path)) as new:
        assert [row[0] for row in new.execute("SELECT number FROM versions")] == [2]


def test_a_store_of_a_newer_version_and_another_encoding_are_refused(
    store: Store, address: str, request: pytest.FixtureRequest
) -> None:
    store.close()
    forge(address, "INSERT INTO versions VALUES (99, '', '')")
    with pytest.raises(PlantError, match="newer version"):
        Store(address)
    if "://" in address:
        other = request.getfixturevalue("postgresql").new_database("LATIN1")
        with pytest.raises(PlantError, match="UTF-8"):
            Store(other)


def test_every_acknowledged_decision_survives_a_killed_process(address: str) -> None:
    with closing(Store(address)) as store:
        note, _ = store.add_note(ANNA, "one", "a dry cough")
    command = [sys.executable, "-c", WRITER, address, note]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        told += [int(line) for line in writer.stdout if line.endswith("\n")]
    opened = Store(address)
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
