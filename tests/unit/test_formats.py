"""Predictions in the formats of other programs: readers of those formats find what was predicted."""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plant.cli.main import main
from plant.data.sources.brat import read_marks
from plant.formats.brat import Names, marks
from plant.formats.fhir import bundle
from plant.formats.lines import header, rows
from plant.serve.reader import Reader
from plant.types import Evidence, Note, Prediction, ScoredCode, Span
from tests.desk_samples import NOTE, Opened, opened_desk, small_coder

TEXT = "Fiebre.\r\nDolor 🫁 torá\ncico =1+1 \x00 and a dry cough"
START = TEXT.index("Dolor")


def evidence(words: str, weight: float = 0.5) -> Evidence:
    start = TEXT.index(words)
    return Evidence(start, start + len(words), words, weight)


@pytest.fixture
def coded() -> tuple[Note, Prediction]:
    """A note with two accepted codes and one that is not."""
    ranked = (
        ScoredCode("R07.4", "Chest pain", 0.9, True, (evidence("Dolor 🫁 torá\ncico"), evidence("=1+1"))),
        ScoredCode("0TJB8ZZ", "Inspection of Bladder", 0.8, True, (evidence("dry cough"),)),
        ScoredCode("R05", "Cough", 0.1, False),
    )
    return Note("visit 1", TEXT, group="p-7"), Prediction("visit 1", ranked)


@pytest.fixture(scope="module")
def reader() -> Reader:
    return small_coder()


@pytest.fixture(scope="module")
def desk(reader: Reader) -> Iterator[Opened]:
    with opened_desk(reader) as opened:
        yield opened


def test_marks_are_read_back_from_brat_at_the_same_places(coded: tuple[Note, Prediction], tmp_path: Path) -> None:
    (tmp_path / "n.ann").write_text(marks(*coded), encoding="utf-8", newline="")
    found = list(read_marks(tmp_path / "n.ann"))
    line = TEXT.index("\ncico")
    assert found == [
        ("R07.4", Span(START, line)),
        ("R07.4", Span(line + 1, line + 5)),  # brat wants no mark over the end of a line
        ("R07.4", Span(TEXT.index("=1+1"), TEXT.index("=1+1") + 4)),
        ("0TJB8ZZ", Span(TEXT.index("dry"), len(TEXT))),
    ]


def test_files_are_named_by_plain_ids_and_never_twice() -> None:
    names = Names(set())
    given = ["visit-1", "Visit-1", "../../etc/passwd", "the patient had a cough", "visit-1", ".hidden", "note-000003"]
    found = [names.of(note, number) for number, note in enumerate(given, start=1)]
    assert found[:3] == ["visit-1", "note-000002", "note-000003"]
    assert len({name.lower() for name in found}) == len(given)
    assert all("/" not in name and not name.startswith(".") and "cough" not in name for name in found)


def test_a_table_has_a_row_for_each_code_and_no_formula(coded: tuple[Note, Prediction]) -> None:
    prediction = coded[1]
    found = list(csv.DictReader(io.StringIO(header() + rows(prediction), newline="")))
    assert [(row["code"], row["accepted"]) for row in found] == [("R07.4", "yes"), ("0TJB8ZZ", "yes"), ("R05", "no")]
    [first, *_] = found[0]["spans"].split(";")
    assert TEXT[slice(*map(int, first.split("-")))] == "Dolor 🫁 torá\ncico"
    alone = Prediction("n", (ScoredCode("A", "", 0.5, True, (evidence("=1+1"),)),))
    assert "'=1+1" in rows(alone)


def test_a_bundle_is_valid_fhir_with_codings_and_places(coded: tuple[Note, Prediction], unchecked: None) -> None:
    from fhir.resources.R4B.bundle import Bundle

    found = bundle([coded], system="icd10")
    read = Bundle.model_validate_json(json.dumps(found))
    kinds = [entry.resource.get_resource_type() for entry in read.entry]
    assert kinds == ["DocumentReference", "Condition", "Procedure"]
    condition = found["entry"][1]["resource"]
    assert condition["code"]["coding"] == [
        {"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": "R07.4", "display": "Chest pain"}
    ]
    [span] = condition["evidence"][0]["extension"]
    places = {part["url"]: part.get("valueInteger") for part in span["extension"]}
    assert TEXT[places["start"] : places["end"]] == "Dolor 🫁 torá\ncico"
    assert condition["evidence"][0]["detail"][0]["reference"] == found["entry"][0]["fullUrl"]
    assert TEXT not in json.dumps(found, ensure_ascii=False)


@pytest.mark.parametrize(
    ("system", "code", "uri"),
    [
        ("icd9", "250.00", "http://hl7.org/fhir/sid/icd-9-cm"),
        ("icd9", "96.71", "urn:oid:2.16.840.1.113883.6.104"),
        ("icdo3", "8500/3", "urn:oid:2.16.840.1.113883.6.43.1"),
        ("icd10cm", "HOUSE-1", None),
        ("other", "R05", None),
    ],
)
def test_codings_name_their_system_where_it_has_one(system: str, code: str, uri: str | None) -> None:
    found = bundle([(Note("n", "x"), Prediction("n", (ScoredCode(code, "", 0.5, True),)))], system=system)
    assert found["entry"][1]["resource"]["code"]["coding"][0].get("system") == uri


def test_the_api_answers_in_the_format_that_is_asked_for(desk: Opened, unchecked: None) -> None:
    from fhir.resources.R4B.bundle import Bundle

    body = {"notes": [{"text": NOTE, "name": "visit-1"}, {"text": "a dry cough"}]}
    plain = desk.post("/predict", body).json()["notes"]
    suggested = [code["code"] for note in plain for code in note["codes"] if code["suggested"]]
    by_name, by_kind = (
        desk.post("/predict?format=fhir", body),
        desk.post("/predict", body, Accept="application/fhir+json"),
    )
    assert by_name.json() == by_kind.json()
    assert by_name.headers["content-type"] == "application/fhir+json"
    read = Bundle.model_validate_json(by_name.text)
    assert [one.resource.code.coding[0].code for one in read.entry if hasattr(one.resource, "code")] == suggested
    table = desk.post("/predict", body, Accept="text/csv;q=0.9, */*").text
    assert [row["code"] for row in csv.DictReader(io.StringIO(table))] == [c["code"] for n in plain for c in n["codes"]]
    assert len(desk.post("/predict?format=jsonl", body).text.splitlines()) == 2
    archive = zipfile.ZipFile(io.BytesIO(desk.post("/predict?format=brat", body).content))
    assert {"visit-1.txt", "visit-1.ann", "1.txt", "codes.csv"} <= set(archive.namelist())
    assert desk.post("/predict?format=pdf", body).status_code == 422


def test_what_was_decided_is_exported_as_confirmed(desk: Opened, unchecked: None) -> None:
    from fhir.resources.R4B.bundle import Bundle

    note, start = desk.add(NOTE, "visit-9"), NOTE.index("dry cough")
    accepted = {"code": "R05", "verdict": "accept", "evidence": [{"start": start, "end": start + 9}]}
    desk.decide(note, 0, accepted, {"code": "S62", "verdict": "reject"})
    desk.post(f"/notes/{note}/finish", If_Match='"1"')
    [line] = desk.get("/export?format=fhir").text.splitlines()
    [_, found] = Bundle.model_validate_json(line).entry
    assert (found.resource.code.coding[0].code, found.resource.verificationStatus.coding[0].code) == (
        "R05",
        "confirmed",
    )
    assert "dry cough" in desk.get("/export?format=csv").text
    archive = zipfile.ZipFile(io.BytesIO(desk.get("/export?format=brat").content))
    assert archive.read("visit-9.txt").decode() == NOTE
    assert "dry cough" in archive.read("visit-9.ann").decode()


def predict(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["predict", *arguments])
    out, error = capsys.readouterr()
    return int(str(ended.value.code)), out, error


def test_the_command_writes_every_format(
    reader: Reader, tmp_path: Path, capsys: pytest.CaptureFixture[str], unchecked: None
) -> None:
    coder, notes = str(tmp_path / "coder"), tmp_path / "notes.jsonl"
    reader.coder.save(coder)
    notes.write_text("".join(json.dumps({"id": name, "text": NOTE}) + "\n" for name in ("a", "b")))
    lines = predict(capsys, coder, str(notes))[1].splitlines()
    asked = [code["code"] for line in lines for code in json.loads(line)["codes"]]
    assert predict(capsys, coder, str(notes), "--format", "csv", "--out", str(tmp_path / "t.csv"))[0] == 0
    with (tmp_path / "t.csv").open(newline="") as file:
        assert [row["code"] for row in csv.DictReader(file)] == asked
    assert predict(capsys, coder, str(notes), "--format", "csv")[1] == (tmp_path / "t.csv").read_text()
    bundles = [json.loads(line) for line in predict(capsys, coder, str(notes), "--format", "fhir")[1].splitlines()]
    assert [found["resourceType"] for found in bundles] == ["Bundle", "Bundle"]
    code, _, said = predict(capsys, coder, str(notes), "--format", "brat", "--out", str(tmp_path / "brat"))
    assert (code, "2 notes coded" in said) == (0, True)
    assert sorted(file.name for file in (tmp_path / "brat").iterdir()) == [
        "a.ann", "a.txt", "annotation.conf", "b.ann", "b.txt", "codes.csv",
    ]  # fmt: skip
    assert (tmp_path / "brat" / "a.txt").read_text() == NOTE
    again = predict(capsys, coder, str(notes), "--format", "brat", "--out", str(tmp_path / "brat"))
    assert (again[0], "exists with other content" in again[2]) == (2, True)
    assert predict(capsys, coder, str(notes), "--format", "brat")[0] == 2
