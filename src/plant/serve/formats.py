"""What was coded or decided, in the formats of other programs, over the wire."""

import json
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from fastapi import Response
from fastapi.responses import StreamingResponse

from plant.formats.brat import CONFIGURATION, TABLE, Names, marks
from plant.formats.fhir import bundle
from plant.formats.lines import as_json, header, rows
from plant.serve.schemas import CodeOut
from plant.serve.store import Row
from plant.types import Evidence, Note, Prediction, ScoredCode

Format = Literal["", "json", "jsonl", "csv", "brat", "fhir"]
Coded = tuple[Note, Prediction]
KINDS: Mapping[str, str] = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "fhir": "application/fhir+json",
    "brat": "application/zip",
}
PART = 1 << 16  # bytes of an answer that are sent at once
FORMATTED: Mapping[int | str, dict[str, Any]] = {
    200: {"description": "In the format that was asked for", "content": {kind: {} for kind in KINDS.values()}}
}
"""For the description of routes that answer in several formats."""


def wanted(form: Format, accept: str) -> str:
    """The format that was asked for by name, or else by the first kind of `Accept` that we know; JSON otherwise."""
    if form:
        return form
    kinds = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    named = {kind: name for name, kind in KINDS.items()}
    return next((named[kind] for kind in kinds if kind in named), "json")


def answer(form: str, coded: Sequence[Coded], *, system: str) -> Response:
    """What the coder proposes, in a format: FHIR is one Bundle, brat an archive."""
    if form == "fhir":
        return Response(json.dumps(bundle(coded, system=system), ensure_ascii=False), media_type=KINDS[form])
    return StreamingResponse(_parts(form, coded), media_type=KINDS[form])


def exported(form: str, coded: Iterable[Coded], *, system: str) -> StreamingResponse:
    """What people decided, in a format, as it is read from the store: FHIR is a Bundle in a line for each note."""
    if form == "fhir":
        bundles = (bundle([one], system=system, status="confirmed") for one in coded)
        lines = (json.dumps(found, ensure_ascii=False) + "\n" for found in bundles)
        return StreamingResponse(lines, media_type="application/fhir+ndjson")
    return StreamingResponse(_parts(form, coded), media_type=KINDS[form])


def proposed(name: str, text: str, codes: Sequence[CodeOut]) -> Coded:
    """A note with what the coder said of it."""
    ranked = [
        ScoredCode(
            code.code,
            code.title,
            code.probability,
            code.suggested,
            tuple(Evidence(one.start, one.end, text[one.start : one.end], one.weight) for one in code.evidence),
        )
        for code in codes
    ]
    return Note(name, text), Prediction(name, tuple(ranked))


def decided(note: Row, decisions: Sequence[Row], titles: Mapping[str, str]) -> Coded:
    """A note with what people accepted; the words are those that they marked."""
    text = note["text"]
    ranked = [
        ScoredCode(
            row["code"],
            titles.get(row["code"], ""),
            1.0 if row["probability"] is None else row["probability"],
            True,
            tuple(Evidence(p["start"], p["end"], text[p["start"] : p["end"]], 1.0) for p in row["evidence"]),
        )
        for row in decisions
        if row["verdict"] == "accept"
    ]
    return Note(note["name"], text), Prediction(note["name"], tuple(ranked))


def _parts(form: str, coded: Iterable[Coded]) -> Iterator[str | bytes]:
    if form == "brat":
        yield from _archive(coded)
    elif form == "csv":
        yield header()
        yield from (rows(prediction) for _, prediction in coded)
    else:
        yield from (json.dumps(as_json(prediction), ensure_ascii=False) + "\n" for _, prediction in coded)


def _archive(coded: Iterable[Coded]) -> Iterator[bytes]:
    """Texts and marks, packed beside; what is large lies in a file that has no name."""
    names, table = Names(set()), [header()]
    with tempfile.SpooledTemporaryFile(max_size=16 << 20) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("annotation.conf", CONFIGURATION)
            for number, (note, prediction) in enumerate(coded, start=1):
                name = names.of(note.id, number)
                archive.writestr(f"{name}.txt", note.text)
                archive.writestr(f"{name}.ann", marks(note, prediction))
                table.append(rows(prediction))
            archive.writestr(TABLE, "".join(table))
        file.seek(0)
        while part := file.read(PART):
            yield part
