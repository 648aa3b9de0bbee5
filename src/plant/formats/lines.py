"""A prediction as a line of JSON, and as rows of a table."""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from plant.types import Prediction, ScoredCode

COLUMNS = ("note", "rank", "code", "description", "probability", "accepted", "spans", "words")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which programs of tables take a cell for a formula


def as_json(prediction: Prediction) -> dict[str, Any]:
    """A prediction as its JSON line; cues stand in it where there are some."""
    codes = [asdict(scored) for scored in prediction.ranked]
    for code in codes:
        code["evidence"] = tuple({k: v for k, v in own.items() if k != "cues" or v} for own in code["evidence"])
    return {"id": prediction.id, "codes": codes}


def header() -> str:
    """The first line of a table."""
    return _line(COLUMNS)


def rows(prediction: Prediction) -> str:
    """A line for each code: `spans` are offsets as `6-11;20-28`, `words` what stands there, joined by bars."""
    return "".join(_line(_cells(prediction.id, rank, scored)) for rank, scored in enumerate(prediction.ranked, start=1))


def _cells(note: str, rank: int, scored: ScoredCode) -> Iterable[object]:
    words = " | ".join(one.text for one in scored.evidence)
    spans = ";".join(f"{one.start}-{one.end}" for one in scored.evidence)
    accepted = "yes" if scored.accepted else "no"
    guarded = f"'{words}" if words.startswith(FORMULA) else words
    return note, rank, scored.code, scored.description, f"{scored.probability:.6f}", accepted, spans, guarded


def _line(cells: Iterable[object]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow(cells)
    return written.getvalue()
