"""Bad input gets one clear line that says what, where, and what to do, and never a word of a note."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from plant.data.sources import SourceOptions, checked, open_source
from plant.data.sources import files as source_files
from plant.errors import InputError
from plant.types import Note, Span

SECRET = "Margarethe"


def error_of(path: Path | str, options: SourceOptions | None = None) -> str:
    """The message of the error that reading a source ends in."""
    with pytest.raises(InputError) as raised:
        list(checked(open_source(str(path), options=options).notes()))
    message = str(raised.value)
    assert "\n" not in message
    assert SECRET not in message
    return message


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


CASES = {
    "empty.csv": (b"", "is empty"),
    "header.csv": (b"id,text,codes\n", "holds no notes"),
    "columns.csv": (b"id,words\n1,x\n", "no column of texts; it has 'id', 'words': name it with --text-column"),
    "headless.csv": (
        b"1,Margarethe fell twice,I10\n2,x,I10\n",
        "it has 3 columns whose names read like values (is the line of names missing?): name it with",
    ),
    "long-id.csv": (b"id,text\nMargarethe fell twice,  \n", "note (a text of 21 characters) has an empty text"),
    "twice.csv": (b"id,text,text\n1,x,y\n", "two columns have the same name"),
    "ragged.csv": (b"id,text\n1,x\n2,Margarethe,z\n", "line 3: the row has 3 cells, the first line names 2"),
    "blank.csv": (b"id,text\n1,x\n2,  \n", "note '2' has an empty text"),
    "no-id.csv": (b"id,text\n,x\n", "empty id"),
    "same.csv": (b"id,text\n1,x\n1,y\n", "two notes have the id '1'"),
    "open.csv": (b'id,text\n1,x\n2,"Margarethe\n3,z\n', "line 3: a quote is opened and never closed"),
    "stray.csv": (b'id,text\n1,"x"\n2,"Margarethe\n3,"z"\n', "line 3: a quote stands where none may stand"),
    "latin.csv": ("id,text\n1,x\n2,Margarethe café\n".encode("latin1"), "line 3: the line is not UTF-8"),
    "inside.csv": ('id,text\n1,"x\nMargarethe\ncafé"\n'.encode("latin1"), "line 4: the line is not UTF-8"),
    "utf16.csv": ("id,text\n1,x\n".encode("utf-16"), "is UTF-16: convert it"),
    "list.csv": (b'id,text,codes\n1,x,"[Margarethe"\n', "line 2: a cell begins with '[' but is no JSON list"),
    "empty.jsonl": (b"", "is empty"),
    "broken.jsonl": (b'{"id": 1, "text": "x"}\n{"id": 2, "text": "Margarethe\n', "line 2 is not valid JSON"),
    "deep.jsonl": (b'{"id": ' + b"[" * 100_000, "line 1 is not valid JSON"),
    "array.jsonl": (b'["Margarethe"]\n', "line 1 holds no JSON object"),
    "number.jsonl": (b'{"id": 1, "text": ["Margarethe"]}\n', "line 1: 'text' holds list, not a string"),
    "code.jsonl": (b'{"id": 1, "text": "x", "codes": [{"Margarethe": 1}]}\n', "line 1: a code is dict, not a string"),
    "marks.jsonl": (b'{"id": 1, "text": "x", "evidence": ["Margarethe"]}\n', "line 1: evidence is not written as"),
    "latin.jsonl": ('{"id": 1, "text": "Margarethe é"}\n'.encode("latin1"), "line 1 is not UTF-8"),
    "half.jsonl": (b'{"id": 1, "text": "Margarethe \\ud83d"}\n', "half a surrogate pair"),
    "broken.parquet": (b"PAR1 Margarethe", "no readable Parquet file"),
    "broken.csv.gz": (b"Margarethe", "damaged or incomplete gzip file"),
    "short.csv.gz": (gzip.compress(b"id,text\n" + b"1,x\n" * 999)[:-12], "damaged or incomplete gzip file"),
    "notes.docx": (b"Margarethe", "unknown kind of file 'docx'; known: csv,"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = CASES[name]
    path = written(tmp_path / name, content)
    error = error_of(path)
    assert message in error
    assert name in error or "note" in error


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    assert "there is no file or folder" in error_of(tmp_path / "nothing.csv")


def test_a_named_column_that_is_missing_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", b"id,text,codes\n1,x,I10\n")
    assert "unknown column 'code'; it has 'id', 'text', 'codes'. Did you mean 'codes'?" in error_of(
        path, SourceOptions(codes_column="code")
    )


def test_a_translation_that_is_missing_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", b"id,text\n1,x\n")
    assert "unknown column 'text_en'" in error_of(path, SourceOptions(language="en"))


@pytest.mark.parametrize("name", ["n.csv", "n.jsonl"])
def test_a_row_over_the_limit_is_told_by_its_line(tmp_path: Path, name: str) -> None:
    long = json.dumps("Margarethe " * 200)
    rows = {
        "n.csv": f"id,text\n1,x\n2,{long}\n3,y\n",
        "n.jsonl": f'{{"id": 1, "text": "x"}}\n{{"id": 2, "text": {long}}}\n',
    }
    path = written(tmp_path / name, rows[name].encode())
    line = 3 if name == "n.csv" else 2
    error = error_of(path, SourceOptions(max_row=1000))
    assert f"line {line}" in error
    assert "longer than 1,000 bytes" in error


def test_a_quote_left_open_does_not_swallow_the_whole_file(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", b'id,text\n1,"x\n' + b"Margarethe\n" * 100_000)
    assert "line 2: the row is longer than 100,000 bytes" in error_of(path, SourceOptions(max_row=100_000))


def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_files, "FREE_BYTES", 1 << 20)
    bomb = written(tmp_path / "n.csv.gz", gzip.compress(b"id,text\n1," + b"x" * 5_000_000 + b"\n"))
    assert "unpacks to more than 200 times its size" in error_of(bomb)


def test_a_code_that_is_none_of_its_system_is_told_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", b"id,text,codes\n1,x,I10\n2,y,Margarethe was here\n")
    assert "line 3: (a text of 19 characters) is no code of icd10cm" in error_of(path, SourceOptions(system="icd10cm"))


def test_evidence_outside_of_the_text_is_told() -> None:
    note = Note("7", "short", ("I10",), evidence={"I10": (Span(2, 9),)})
    with pytest.raises(InputError, match=r"evidence of code 'I10' lies outside of the text of note '7' \(2 to 9 of 5"):
        list(checked([note]))


def test_evidence_for_a_code_that_the_note_does_not_have_is_told() -> None:
    note = Note("7", "short", ("I10",), evidence={"E11.9": (Span(0, 2),)})
    with pytest.raises(InputError, match=r"note '7' has evidence for code 'E11\.9'"):
        list(checked([note]))


def test_a_folder_without_notes_says_what_is_expected(tmp_path: Path) -> None:
    assert "holds no notes: expected are tables" in error_of(tmp_path)


def test_a_folder_of_two_kinds_of_tables_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "train.csv", b"id,text\n1,x\n")
    written(tmp_path / "dev.jsonl", b'{"id": 2, "text": "y"}\n')
    assert "holds notes as csv and as jsonl" in error_of(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "mimic5"}, "unknown source 'mimic5'; known: cantemist, codiesp, mimic3, mimic4"),
        ({"source": "mimic3"}, "mimic3 is read from a folder"),
        ({"label_set": "top100"}, "unknown label set 'top100'"),
        ({"label_set": "rare50"}, "give its codes with --codes-file"),
        ({"separator": ""}, "separator of codes is empty"),
        ({"splits": "nowhere"}, "no file or folder nowhere of splits"),
        ({"codes_file": "nowhere.csv"}, "there is no file nowhere.csv"),
        ({"codebook": "nowhere.tsv"}, "cannot read the code file nowhere.tsv"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_an_option_that_cannot_be_followed_is_told(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "n.csv", b"id,text,codes\n1,x,I10\n")
    assert message in error_of(path, SourceOptions(**options))


def test_a_list_that_puts_a_note_into_two_splits_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "n.csv", b"id,text\n1,x\n")
    splits = written(tmp_path / "splits.csv", b"id,split\n1,train\n1,test\n")
    assert "line 3: id '1' is in split 'train' and in 'test'" in error_of(path, SourceOptions(splits=str(splits)))
