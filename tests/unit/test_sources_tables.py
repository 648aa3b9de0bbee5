"""Notes in tables: CSV, TSV, JSON lines, Parquet, plain and gzipped, alone and in folders."""

import gzip
from pathlib import Path

import polars
import pytest

from plant.data.sources import Source, SourceOptions, checked, open_source
from plant.types import Note, Span
from tests.source_samples import delimited, json_lines

TEXT = 'First line, with "quotes"\nsecond line; naïve\r\nthird'
ROWS = [
    {"id": "a", "text": TEXT, "labels": "I10;E11.9", "split": "train", "group": "p1"},
    {"id": "b", "text": "Another note.", "labels": "", "split": "dev", "group": "p2"},
]
NOTES = [Note("a", TEXT, ("I10", "E11.9"), "train", "p1"), Note("b", "Another note.", (), "dev", "p2")]


def notes_of(source: Source) -> list[Note]:
    return list(checked(source.notes()))


def write(path: Path, content: bytes) -> str:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


@pytest.mark.parametrize(
    "name", ["notes.csv", "notes.csv.gz", "notes.tsv", "notes.TSV", "notes.jsonl", "notes.jsonl.gz"]
)
def test_every_kind_of_text_table_gives_the_same_notes(tmp_path: Path, name: str) -> None:
    content = json_lines([*ROWS]) if "jsonl" in name else delimited(ROWS, "\t" if "tsv" in name.lower() else ",")
    assert notes_of(open_source(write(tmp_path / name, content))) == NOTES


@pytest.mark.parametrize("as_list", [True, False])
def test_parquet_gives_the_same_notes_and_knows_its_number(tmp_path: Path, as_list: bool) -> None:
    rows = [row | {"labels": row["labels"].split(";") if row["labels"] else []} for row in ROWS] if as_list else ROWS
    polars.DataFrame(rows).write_parquet(tmp_path / "notes.parquet")
    source = open_source(str(tmp_path / "notes.parquet"))
    assert (notes_of(source), source.total) == (NOTES, 2)


def test_a_source_can_be_read_again(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "notes.csv", delimited(ROWS)))
    assert list(source.notes()) == list(source.notes()) == NOTES


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert notes_of(open_source(write(tmp_path / "notes.csv", b"\xef\xbb\xbf" + delimited(ROWS)))) == NOTES


def test_columns_are_found_in_any_case_and_by_other_usual_names(tmp_path: Path) -> None:
    content = b"SUBJECT_ID,HADM_ID,TEXT,LABELS,length\n7,12,Some words,401.9;V45.81,2\n"
    assert notes_of(open_source(write(tmp_path / "train_full.csv", content))) == [
        Note("12", "Some words", ("401.9", "V45.81"), "", "7")
    ]


def test_columns_and_separator_can_be_named(tmp_path: Path) -> None:
    content = b"key,body,icd,fold,person\n1,words,I10|E11.9,train,p\n"
    options = SourceOptions(
        id_column="key",
        text_column="body",
        codes_column="icd",
        split_column="fold",
        group_column="person",
        separator="|",
    )
    path = write(tmp_path / "notes.csv", content)
    assert notes_of(open_source(path, options=options)) == [Note("1", "words", ("I10", "E11.9"), "train", "p")]


def test_notes_without_an_id_column_are_numbered_after_their_file(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.csv", b"text,codes\none,I10\ntwo,I10\n")
    assert [note.id for note in open_source(path).notes()] == ["notes:1", "notes:2"]


def test_codes_may_be_a_json_list_in_a_cell_and_repeat(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.csv", b'id,text,codes\n1,one,"[""I10"", ""I10"", ""E11.9""]"\n2,two, I10 ;;I10\n')
    assert [note.codes for note in open_source(path).notes()] == [("I10", "E11.9"), ("I10",)]


def test_a_coding_system_spells_the_codes(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.csv", b"id,text,codes\n1,one,4019;v4581\n")
    [note] = open_source(path, options=SourceOptions(system="icd9-diagnosis")).notes()
    assert note.codes == ("401.9", "V45.81")


def test_evidence_is_read_from_json(tmp_path: Path) -> None:
    marks = [{"start": 4, "end": 9, "label": "I10", "text": "words"}, {"start": 0, "end": 3, "code": "I10"}]
    path = write(
        tmp_path / "n.jsonl", json_lines([{"id": 1, "text": "The words", "codes": ["I10"], "evidence": marks}])
    )
    assert notes_of(open_source(path))[0].evidence == {"I10": (Span(0, 3), Span(4, 9))}


def test_a_translation_is_read_without_the_spans_of_the_original(tmp_path: Path) -> None:
    row = {"id": "1", "text": "nota larga", "text_en": "note", "labels": ["I10"]}
    path = write(tmp_path / "n.jsonl", json_lines([row | {"evidence": [{"start": 5, "end": 10, "label": "I10"}]}]))
    assert notes_of(open_source(path, options=SourceOptions(language="en"))) == [Note("1", "note", ("I10",))]


def test_lines_of_json_need_not_have_the_same_keys(tmp_path: Path) -> None:
    rows = [{"id": "1", "text": "one"}, {"id": "2", "text": "two", "labels": ["I10"], "split": "train"}]
    path = write(tmp_path / "n.jsonl", json_lines(rows))
    assert [(note.codes, note.split) for note in open_source(path).notes()] == [((), ""), (("I10",), "train")]


def test_a_cell_of_a_megabyte_passes(tmp_path: Path) -> None:
    text = 'word "quoted"\n' * 100_000
    path = write(tmp_path / "notes.csv", delimited([{"id": "1", "text": text, "labels": "I10"}]))
    assert notes_of(open_source(path))[0].text == text


def test_a_folder_of_tables_is_one_corpus_with_its_code_book(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", json_lines([{"id": "1", "text": "one", "labels": ["I10"]}]))
    write(tmp_path / "dev.jsonl.gz", json_lines([{"id": "2", "text": "two", "labels": ["E11.9"], "split": "dev1"}]))
    write(tmp_path / "labels.tsv", b"code\tdescription\tparent\nI10\tEssential (primary) hypertension\tI10-I16\n")
    source = open_source(str(tmp_path))
    assert {note.id: note.split for note in source.notes()} == {"1": "train", "2": "dev1"}
    assert source.codebook is not None
    assert source.codebook.description("I10") == "Essential (primary) hypertension"
    assert source.codebook.system == "icd10cm"


def test_text_without_codes_that_repeats_a_coded_note_is_left_out_and_counted(tmp_path: Path) -> None:
    write(tmp_path / "dev.jsonl", json_lines([{"id": "1", "text": "one  two", "labels": ["I10"]}]))
    bare = [{"id": "1", "text": "same id"}, {"id": "2", "text": "one two\n"}, {"id": "3", "text": "another"}]
    write(tmp_path / "background.jsonl", json_lines([*bare]))
    source = open_source(str(tmp_path))
    assert [(note.id, note.split) for note in source.notes()] == [("1", "dev"), ("3", "background")]
    assert list(source.facts.values()) == [2]


def test_a_list_of_splits_decides_and_leaves_out_what_it_does_not_name(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.csv", b"id,text,codes\n1,one,I10\n2,two,I10\n3,three,I10\n")
    splits = write(tmp_path / "splits.tsv", b"_id\tsplit\n3\ttest\n1\ttrain\n")
    notes = open_source(path, options=SourceOptions(splits=splits)).notes()
    assert {note.id: note.split for note in notes} == {"1": "train", "3": "test"}


def test_rare_codes_are_left_out_and_so_are_notes_that_lose_all(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.csv", b"id,text,codes\n1,one,I10;E11.9\n2,two,I10\n3,three,J45\n4,four,\n")
    notes = open_source(path, options=SourceOptions(min_code_count=2)).notes()
    assert {note.id: note.codes for note in notes} == {"1": ("I10",), "2": ("I10",), "4": ()}


def test_the_top_50_are_the_most_frequent_codes_of_all_splits(tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": "t", "codes": [f"C{n:02d}"] + ["I10"] * (n % 2)} for n in range(60)]
    path = write(tmp_path / "n.jsonl", json_lines([*rows]))
    notes = list(open_source(path, options=SourceOptions(label_set="top50")).notes())
    assert {code for note in notes for code in note.codes} == {"I10"} | {f"C{n:02d}" for n in range(49)}


def test_a_list_of_codes_limits_codes_and_evidence(tmp_path: Path) -> None:
    marks = [{"start": 0, "end": 1, "label": code} for code in ("I10", "E11.9")]
    row = {"id": "1", "text": "one", "codes": ["I10", "E11.9"], "evidence": marks}
    path = write(tmp_path / "n.jsonl", json_lines([row]))
    listed = write(tmp_path / "codes.txt", b"code\nE11.9\n")
    [note] = open_source(path, options=SourceOptions(codes_file=listed)).notes()
    assert (note.codes, dict(note.evidence)) == (("E11.9",), {"E11.9": (Span(0, 1),)})
