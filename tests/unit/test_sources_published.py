"""CANTEMIST and CodiEsp in their published folders, from small made-up notes."""

from pathlib import Path

import pytest

from plant.data.sources import Source, SourceOptions, checked, open_source
from plant.errors import InputError
from plant.types import Note, Span
from tests.source_samples import CASE, MARK, TAIL, cantemist, codiesp, put


def notes_of(source: Source) -> dict[str, Note]:
    return {note.id: note for note in checked(source.notes())}


@pytest.mark.parametrize("suffix", ["", "-to-publish"])
def test_cantemist_is_recognised_and_its_marks_are_evidence(tmp_path: Path, suffix: str) -> None:
    notes = notes_of(open_source(str(cantemist(tmp_path, suffix=suffix))))
    assert notes["cc_case1"] == Note(
        id="cc_case1",
        text=CASE,
        codes=("8012/3", "8000/6/H"),
        split="train",
        evidence={"8012/3": (Span(MARK, MARK + 28),), "8000/6/H": (Span(MARK, MARK + 9), Span(TAIL, TAIL + 10))},
    )


def test_splits_of_cantemist_have_their_short_names_and_notes_may_have_no_code(tmp_path: Path) -> None:
    notes = notes_of(open_source(str(cantemist(tmp_path))))
    assert {note.id: (note.split, len(note.codes)) for note in notes.values()} == {
        "cc_case1": ("train", 2),
        "cc_case2": ("dev1", 2),
        "cc_case3": ("dev1", 0),
        "cc_case9": ("background", 0),
    }


def test_the_background_leaves_out_notes_of_other_sets_and_counts_them(tmp_path: Path) -> None:
    source = open_source(str(cantemist(tmp_path)))
    assert (source.total, list(source.facts.values())) == (4, [1])


def test_an_archive_in_a_folder_of_its_own_is_found(tmp_path: Path) -> None:
    cantemist(tmp_path / "download" / "cantemist")
    assert "cc_case1" in notes_of(open_source(str(tmp_path / "download")))
    codiesp(tmp_path / "other" / "final_dataset_v4_to_publish")
    assert "S0004-1" in notes_of(open_source(str(tmp_path / "other"), options=SourceOptions(source="codiesp")))


def test_codiesp_gives_diagnoses_with_evidence_spelled_as_icd_10_cm(tmp_path: Path) -> None:
    notes = notes_of(open_source(str(codiesp(tmp_path))))
    assert notes["S0004-1"] == Note(
        id="S0004-1",
        text=CASE,
        codes=("R91.8", "C34.90"),
        split="train",
        evidence={"R91.8": (Span(11, 24),), "C34.90": (Span(10, 16), Span(MARK, MARK + 9))},
    )
    assert (notes["S0004-3"].split, notes["S0004-3"].codes) == ("dev", ())
    assert notes["S0004-4"].split == "test"


def test_codiesp_gives_procedures_if_asked(tmp_path: Path) -> None:
    source = open_source(str(codiesp(tmp_path)), options=SourceOptions(system="icd10pcs"))
    notes = notes_of(source)
    assert {note.id: note.codes for note in notes.values() if note.codes} == {"S0004-1": ("BW24ZZZ",)}
    assert notes["S0004-1"].evidence == {"BW24ZZZ": (Span(6, 9),)}
    assert source.codebook is not None
    assert source.codebook.system == "icd10pcs"


def test_the_english_texts_of_codiesp_have_no_spans(tmp_path: Path) -> None:
    note = notes_of(open_source(str(codiesp(tmp_path)), options=SourceOptions(language="en")))["S0004-1"]
    assert note == Note("S0004-1", "Man with a mass.", ("R91.8", "C34.90"), "train")


def test_official_names_describe_the_codes(tmp_path: Path) -> None:
    book = open_source(str(codiesp(tmp_path))).codebook
    assert book is not None
    assert book.description("R91.8") == "Other nonspecific abnormal finding of lung field"
    assert "R91" in book.ancestors("R91.8")


def test_a_code_that_is_none_of_its_system_is_kept_without_a_name(tmp_path: Path) -> None:
    put(codiesp(tmp_path) / "train" / "trainD.tsv", "S0004-1\tr91.8\nS0004-1\tunclear\n")
    source = open_source(str(tmp_path))
    assert notes_of(source)["S0004-1"].codes == ("R91.8", "unclear")
    assert source.codebook is not None
    assert source.codebook.description("unclear") == ""


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("train/trainD.tsv", "S0004-7\tr91.8\n", "line 1: note 'S0004-7' has no text file"),
        ("train/trainD.tsv", "S0004-1\n", "line 1: 1 cells where 2 belong"),
        (
            "train/trainX.tsv",
            "S0004-1\tDIAGNOSTICO\tr91.8\tmasa\t11-24\n",
            "line 1: a span is not written as",
        ),
        (
            "train/trainX.tsv",
            "S0004-1\tDIAGNOSTICO\tr91.8\tmasa\t11 2400\n",
            "lies outside of the text",
        ),
    ],
)
def test_a_broken_table_is_told_by_its_line(tmp_path: Path, path: str, content: str, message: str) -> None:
    put(codiesp(tmp_path) / path, content)
    with pytest.raises(InputError, match=message):
        notes_of(open_source(str(tmp_path)))


def test_a_text_that_is_not_utf_8_is_told_by_file_and_line(tmp_path: Path) -> None:
    (codiesp(tmp_path) / "train" / "text_files" / "S0004-1.txt").write_bytes("uno\nmetástasis".encode("latin1"))
    with pytest.raises(InputError, match=r"S0004-1\.txt, line 2 is not UTF-8"):
        notes_of(open_source(str(tmp_path)))


def test_a_language_without_texts_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no texts in the language 'fr'"):
        open_source(str(codiesp(tmp_path)), options=SourceOptions(language="fr"))
