"""What people decide at the desk is what the next coder learns from: the walk of the example, on a small scale."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from plant import Coder
from plant.data.sources.demo import demo_notes
from plant.serve.reader import Reader
from plant.types import Note
from tests.desk_samples import opened_desk

EXAMPLE = Path(__file__).parents[2] / "examples" / "learning_from_decisions.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("learning_from_decisions", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fitted(notes: list[Note]) -> Coder:
    return Coder("tfidf").fit([note.text for note in notes], [note.codes for note in notes])


def test_decisions_come_back_as_the_training_notes_that_they_were_made_of(example: ModuleType) -> None:
    half, quarter, rest = example.parted(demo_notes(notes=32))
    groups = [{note.group for note in part} for part in (half, quarter, rest)]
    assert sum(map(len, groups)) == len(set().union(*groups))
    with opened_desk(Reader(fitted(half), "before", "d" * 64)) as desk:

        def ask(path: str, body: object = None, **headers: str) -> Any:
            kind = "GET" if body is None else "POST"
            answer = desk.client.request(kind, f"/v1/{path}", json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            return answer.text if path == "export" else answer.json()

        counts = [example.decide(ask, note) for note in quarter[:3]]
        export = ask("export").splitlines()
    assert sum(count["added"] for count in counts) > 0
    known = {note.id: note for note in quarter}
    taught = [json.loads(line) for line in example.taught(export, {note.id: note.group for note in quarter})]
    for record in taught:
        note = known[record["id"]]
        assert (record["text"], set(record["codes"]), record["split"]) == (note.text, set(note.codes), "train")
        marked = [(mark["label"], mark["start"], mark["end"]) for mark in record["evidence"]]
        assert set(marked) <= {(code, a.start, a.end) for code, spans in note.evidence.items() for a in spans}
    assert len(taught) == 3
