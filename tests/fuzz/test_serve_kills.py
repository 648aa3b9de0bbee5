"""The desk under load, killed without a last word, and on a full disk: what was acknowledged is there.

Minutes, so `slow`: `make fuzz` runs it. `PLANT_KILLS` says how often a service is killed.
"""

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from plant.serve.store import Store, Who
from tests.desk_samples import NOTE, small_coder

KILLS = int(os.environ.get("PLANT_KILLS", "20"))
CLIENTS = 6
Told = tuple[str, int, str]  # note, version, code
ROOT = Path(__file__).parents[2]
PLANT = (sys.executable, "-c", "from plant.cli.main import main; main()", "serve")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coder") / "coder"
    small_coder().coder.save(folder)
    return folder


@contextmanager
def running(coder: Path, store: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service in a process of its own, and where it is; killed at the end if it still runs."""
    command = [*PLANT, str(coder), "--store", store, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        assert server.stderr is not None
        try:
            lines = iter(server.stderr.readline, "")
            found = next(found[0] for line in lines if (found := re.findall(r"http://(\S+)/ ", line)))
            while not answers(found):
                time.sleep(0.02)
            yield server, found
        finally:
            server.kill()


def answers(host: str) -> bool:
    try:
        return ask(host, "GET", "/v1/ready")[0] == 200
    except OSError:
        return False


def ask(host: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """The status and the body of an answer."""
    with closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = json.dumps(body).encode() if body is not None else None
        connection.request(method, path, sent, {"Content-Type": "application/json", **named})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")


def decide(host: str, note: str, told: list[Told], stop: threading.Event) -> None:
    """One coder: a decision after the other, each noted once it was acknowledged."""
    try:
        version = ask(host, "GET", f"/v1/notes/{note}")[1]["version"]
        while not stop.is_set():
            code = f"C{version}"
            body = {"changes": [{"code": code, "verdict": "accept"}]}
            status, answer = ask(host, "POST", f"/v1/notes/{note}/decisions", body, If_Match=f'"{version}"')
            assert status == 200, answer
            version = answer["version"]
            told.append((note, version, code))
    except (OSError, http.client.HTTPException, ValueError):
        return  # the service is gone, in the midst of an answer maybe


def under_load(coder: Path, store: str, notes: list[str], end: signal.Signals, *, after: int) -> list[Told]:
    """What was acknowledged to coders, one for each note, by a service that is sent a signal after some decisions."""
    told: list[Told] = []
    stop = threading.Event()
    with running(coder, store) as (server, host):
        clients = [threading.Thread(target=decide, args=(host, note, told, stop)) for note in notes]
        for client in clients:
            client.start()
        while len(told) < after and any(client.is_alive() for client in clients):
            time.sleep(0.001)
        server.send_signal(end)
        assert server.wait(90) == (0 if end == signal.SIGTERM else -signal.SIGKILL)
        stop.set()
        for client in clients:
            client.join()
    return told


def new_notes(store: str) -> list[str]:
    with closing(Store(store)) as opened:
        return [opened.add_note(Who("anna"), f"n{number}", NOTE)[0] for number in range(CLIENTS)]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_acknowledged_decision_survives_kills_under_load(
    coder: Path, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    store = str(tmp_path / "desk.sqlite")
    if database == "postgresql":
        store = request.getfixturevalue("postgresql").new_database()
    notes, draw, acknowledged = new_notes(store), random.Random(database), 0
    for _ in range(KILLS):
        told = under_load(coder, store, notes, signal.SIGKILL, after=draw.randrange(CLIENTS, 15 * CLIENTS))
        with closing(Store(store)) as opened:
            versions = {note: opened.version(note) for note in notes}
            codes = {note: {row["code"] for row in opened.decisions(note)} for note in notes}
            assert all(version <= versions[note] and code in codes[note] for note, version, code in told)
            assert all(len(codes[note]) == versions[note] for note in notes), "a version without its decision"
            assert opened.first_forgery() is None
        acknowledged += len(told)
    print(f"{database}: {KILLS} kills, {acknowledged:,} acknowledged decisions, none lost")
    assert acknowledged >= KILLS * CLIENTS


def test_a_shutdown_under_load_answers_all_that_it_accepted(coder: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "desk.sqlite")
    notes, acknowledged = new_notes(store), 0
    for _ in range(max(KILLS // 4, 1)):
        told = under_load(coder, store, notes, signal.SIGTERM, after=10 * CLIENTS)
        with closing(Store(store)) as opened:
            for note in notes:  # what was made was told: nobody is left in doubt by an orderly end
                versions = [version for of, version, _ in told if of == note]
                assert opened.version(note) == max(versions, default=opened.version(note))
        acknowledged += len(told)
    print(f"{max(KILLS // 4, 1)} shutdowns, {acknowledged:,} acknowledged decisions, none made without a word")
    assert acknowledged > 0
