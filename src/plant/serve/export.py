"""Decisions as JSON lines that `plant prepare` reads: what people accepted, with the words that they marked.

The coder's own phrases are never exported as evidence: it would learn from itself. Codes that were rejected, and those
that nobody decided on, stand beside for those who want them; `plant prepare` looks at neither.
"""

import json
from collections.abc import Iterator

from plant.serve.store import Prediction, Row, Store


def export_lines(store: Store, *, state: str = "finished") -> Iterator[str]:
    """A line for each note of a state."""
    for note, decisions, said in store.finished(state=state):
        yield json.dumps(_record(note, decisions, said), ensure_ascii=False) + "\n"


def _record(note: Row, decisions: list[Row], said: Prediction | None) -> dict[str, object]:
    accepted = [row for row in decisions if row["verdict"] == "accept"]
    decided = {row["code"] for row in decisions}
    suggested = [code["code"] for code in said.codes if code["suggested"]] if said else []
    return {
        "id": note["name"],
        "text": note["text"],
        "codes": [row["code"] for row in accepted],
        "evidence": [{**place, "label": row["code"]} for row in accepted for place in row["evidence"]],
        "rejected": [row["code"] for row in decisions if row["verdict"] == "reject"],
        "undecided": [code for code in suggested if code not in decided],
        "by": note["finished_by"],
        "at": note["finished_at"],
        "model": said.model_digest if said else "",
    }
