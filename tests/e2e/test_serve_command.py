"""`plant serve` as people start it: what it refuses, that it answers, and that it ends without losing anything."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.desk_samples import NOTE, small_coder

ROOT = Path(__file__).parents[2]
PLANT = (sys.executable, "-c", "from plant.cli.main import main; main()", "serve")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coder") / "coder"
    small_coder().coder.save(folder)
    return folder


def post(address: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        f"{address}v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=200) as answer:
        return json.loads(answer.read())


def is_ready(address: str) -> bool:
    try:
        return urllib.request.urlopen(f"{address}v1/ready", timeout=5).status == 200
    except OSError:  # not yet, not now, or not in time
        return False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "name the folder of a coder"),
        (("CODER", "--host", "0.0.0.0"), "plant serve keys add"),
        (("CODER", "--proxy-role", "X-Role"), "need --proxy-user"),
        (("CODER", "--store", "mysql://a:secret@b/c"), "a store is a file of SQLite"),
        (("CODER", "--store", "postgresql://anna:secret@127.0.0.1:1/desk"), "cannot be reached"),
        (("nowhere",), "there is no folder nowhere"),
        (("--export", "out.jsonl", "--store", "none.sqlite"), "there is no store"),
        (("keys",), "plant serve keys add NAME"),
        (("keys", "add", "anna smith"), "the name of a key has letters"),
        (("keys", "revoke", "anna"), "there is no store"),
        (("audit",), "there is no store"),
    ],
)
def test_what_cannot_be_started_is_one_line(
    coder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from plant.cli.main import main

    monkeypatch.chdir(tmp_path)
    own = [str(coder) if argument == "CODER" else argument for argument in arguments]
    with pytest.raises(SystemExit) as ended:
        main(["serve", *own, "--port", "0"])
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (2, 1)
    assert sentence in said
    assert "secret" not in said


def test_a_desk_answers_ends_on_a_signal_and_exports_what_was_decided(coder: Path, tmp_path: Path) -> None:
    notes, store, out = tmp_path / "notes.jsonl", tmp_path / "desk.sqlite", tmp_path / "out.jsonl"
    notes.write_text(json.dumps({"id": "one", "text": NOTE}) + "\n")
    command = [*PLANT, str(coder), "--notes", str(notes), "--store", str(store), "--port", "0", "--log", "info"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        address = next(found[0] for line in lines if (found := re.findall(r"http://\S+/", line)))
        while not is_ready(address):
            time.sleep(0.05)
        assert post(address, "predict", {"notes": [{"text": NOTE}]})["notes"][0]["codes"]
        with urllib.request.urlopen(f"{address}v1/queue") as answer:
            note = json.loads(answer.read())["items"][0]["note"]
        for act in (f"notes/{note}/decisions", f"notes/{note}/finish"):
            body = {"changes": [{"code": "R05", "verdict": "accept"}]} if act.endswith("decisions") else {}
            headers = {"Content-Type": "application/json", "If-Match": f'"{int(act.endswith("finish"))}"'}
            urllib.request.urlopen(urllib.request.Request(f"{address}v1/{act}", json.dumps(body).encode(), headers))
        server.send_signal(signal.SIGTERM)
        rest = server.stderr.read()
        assert server.wait(200) == 0
    assert "the desk is closed" in rest
    assert not {"cough", "kidney"} & set(rest.split())
    subprocess.run([*PLANT, "--store", str(store), "--export", str(out)], check=True, env=ENVIRONMENT)
    assert [json.loads(line)["codes"] for line in out.read_text().splitlines()] == [["R05"]]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir() or os.cpu_count() == 1, reason="threads are counted by Linux")
@pytest.mark.parametrize("verb", ["serve", "predict", "explain"])
@pytest.mark.parametrize(("told", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")])
def test_numpy_takes_one_thread_unless_it_is_told_otherwise(
    verb: str, told: dict[str, str], threads: str, tmp_path: Path
) -> None:
    script = (
        "import atexit, os; atexit.register(lambda: print(len(os.listdir('/proc/self/task')))); "
        "from plant.cli.main import main; main()"
    )
    further = ["--seconds", "0"] if verb == "serve" else ["none.txt"]  # refused once all is imported
    words = [sys.executable, "-c", script, verb, str(tmp_path), *further]
    plain = {name: value for name, value in ENVIRONMENT.items() if not name.endswith("_NUM_THREADS")}
    ended = subprocess.run(words, capture_output=True, text=True, env={**plain, **told}, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (2, threads), ended.stderr


def test_keys_are_added_listed_and_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from plant.cli.main import main

    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["serve", *words])
        assert ended.value.code == 0
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    key = said("keys", "add", "anna", "--role", "reviewer").strip()
    assert len(key) >= 32
    assert [line.split("\t")[:2] for line in said("keys", "list").splitlines()] == [["anna", "reviewer"]]
    said("keys", "revoke", "anna")
    assert "valid" not in said("keys", "list")
    assert [json.loads(line)["action"] for line in said("audit").splitlines()] == ["add-key", "revoke-key"]
