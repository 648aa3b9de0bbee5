"""The desk teaches the next coder: fit on half of the notes, decide on a quarter, fit again, compare on the rest.

    python examples/learning_from_decisions.py OUT [--notes 1200] [--recipe tfidf]

Notes are those of the demo corpus, parted by patient. What a person would decide is simulated: suggestions that are
right are accepted, wrong ones rejected, missing codes added with the words that speak for them. Everything else is what
people do: `plant run`, `plant serve` with its API, the export, `plant run` again, `plant compare`.
"""

import argparse
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from plant.data.sources.demo import demo_notes
from plant.types import Note

PLANT = (sys.executable, "-c", "import sys; from plant.cli.main import main; sys.exit(main())")
Ask = Callable[..., Any]
"""Called as `ask(path, body, **headers)`: the answer of the service; without a body it is a GET."""


def parted(notes: Iterable[Note]) -> tuple[list[Note], list[Note], list[Note]]:
    """Half of the patients, a quarter, and the rest."""
    found = list(notes)
    place = {group: number % 4 for number, group in enumerate(dict.fromkeys(note.group for note in found))}
    parts = [[note for note in found if place[note.group] in own] for own in ((0, 1), (2,), (3,))]
    return parts[0], parts[1], parts[2]


def line(note: Note, split: str) -> str:
    """A note as `plant prepare` reads it."""
    marks = [{"start": a.start, "end": a.end, "label": code} for code, spans in note.evidence.items() for a in spans]
    record = {"id": note.id, "text": note.text, "codes": note.codes, "group": note.group, "split": split}
    return json.dumps({**record, "evidence": marks}) + "\n"


def decide(ask: Ask, note: Note) -> dict[str, int]:
    """What a person does with one note on the desk; how often each."""
    [number] = ask("notes", {"notes": [{"name": note.id, "text": note.text}]})["notes"]
    view = ask(f"notes/{number}/predict", {})
    suggested = {code["code"] for code in view["codes"] if code["suggested"]}
    accepted = [{"code": code, "verdict": "accept"} for code in note.codes if code in suggested]
    rejected = [{"code": code, "verdict": "reject"} for code in sorted(suggested - set(note.codes))]
    added = [
        {
            "code": code,
            "verdict": "accept",
            "evidence": [{"start": a.start, "end": a.end} for a in note.evidence[code][:1]],
        }
        for code in note.codes
        if code not in suggested
    ]
    at = {"If-Match": f'"{view["version"]}"'}
    decided = ask(f"notes/{number}/decisions", {"changes": [*accepted, *rejected, *added]}, **at)
    ask(f"notes/{number}/finish", {}, **{"If-Match": f'"{decided["version"]}"'})
    return {"accepted": len(accepted), "rejected": len(rejected), "added": len(added)}


def taught(export: Iterable[str], groups: dict[str, str]) -> Iterable[str]:
    """The export as further training notes; patients come back by the names of the notes."""
    for record in map(json.loads, export):
        yield json.dumps({**record, "group": groups[record["id"]], "split": "train"}) + "\n"


def plant(*arguments: object) -> None:
    """A command of plant."""
    subprocess.run([*PLANT, *map(str, arguments)], check=True)


def fit(notes: Path, out: Path, recipe: str) -> None:
    """A coder that learns from the training notes of a file and is measured on the others."""
    plant("run", notes, "--fit", "train", "--choose", "0.1", "--report", "test", "--recipe", recipe, "--out", out)


def over_http(port: int) -> Ask:
    """The service at a port of this machine."""

    def ask(path: str, body: object = None, **headers: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        sent = None if body is None else json.dumps(body)
        connection.request(
            "GET" if body is None else "POST", f"/v1/{path}", sent, {"Content-Type": "application/json", **headers}
        )
        answer = connection.getresponse()
        told = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        return told if path == "export" else json.loads(told)

    return ask


def on_the_desk(coder: Path, store: Path, notes: Sequence[Note], *, port: int) -> list[str]:
    """Decide on all notes at a service that is started for it, and export what was decided."""
    service = subprocess.Popen([*PLANT, "serve", str(coder), "--store", str(store), "--port", str(port)])
    ask = over_http(port)
    try:
        while not _answers(ask):
            if service.poll() is not None:
                raise RuntimeError("the service did not start")
            time.sleep(0.1)
        counts = [decide(ask, note) for note in notes]
        print({name: sum(count[name] for count in counts) for name in counts[0]}, file=sys.stderr)
        return str(ask("export")).splitlines()
    finally:
        service.terminate()
        service.wait()


def _answers(ask: Ask) -> bool:
    try:
        ask("ready")
    except (OSError, RuntimeError):
        return False
    return True


def main() -> None:
    """The whole walk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--notes", type=int, default=1200)
    parser.add_argument("--recipe", default="tfidf")
    parser.add_argument("--port", type=int, default=8765)
    wished = parser.parse_args()
    wished.out.mkdir(parents=True, exist_ok=True)
    half, quarter, rest = parted(demo_notes(notes=wished.notes))
    first, second = wished.out / "first.jsonl", wished.out / "second.jsonl"
    known = [*(line(note, "train") for note in half), *(line(note, "test") for note in rest)]
    first.write_text("".join(known))
    fit(first, wished.out / "before", wished.recipe)
    coder, store = wished.out / "before" / "coder", wished.out / "desk.sqlite"
    export = on_the_desk(coder, store, quarter, port=wished.port)
    second.write_text("".join([*known, *taught(export, {note.id: note.group for note in quarter})]))
    fit(second, wished.out / "after", wished.recipe)
    plant("compare", f"before={wished.out / 'before'}", f"after={wished.out / 'after'}")


if __name__ == "__main__":
    main()
