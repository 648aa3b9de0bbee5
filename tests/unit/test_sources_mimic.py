"""MIMIC-III and MIMIC-IV, from small files with the published schema: nothing here comes from MIMIC."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from plant.data.sources import Source, SourceOptions, checked, open_source
from plant.data.sources.mimic import NotePart, gathered
from plant.errors import InputError
from plant.types import Note
from tests.source_samples import event, mimic3, mimic4, summary, table

REPORT = 'Admission Date:  [**2151-7-16**]\n\nHe said "no pain", twice.\nDischarge Diagnosis: CHF'


def notes_of(source: Source) -> list[Note]:
    return list(checked(source.notes()))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_note_of_mimic_iii_is_a_summary_with_the_codes_of_both_tables(tmp_path: Path, suffix: str) -> None:
    diagnoses = [[1, 9, 100, 1, "4019"], [2, 9, 100, 2, "V4581"], [3, 9, 100, 3, "E8889"], [4, 9, 100, 4, "0389"]]
    mimic3(
        tmp_path, [event(1, 100, REPORT)], diagnoses, [[1, 9, 100, 1, "3893"], [2, 9, 100, 2, "0066"]], suffix=suffix
    )
    codes = ("401.9", "V45.81", "E888.9", "038.9", "38.93", "00.66")
    assert notes_of(open_source(str(tmp_path))) == [Note("100", REPORT, codes, "", "1")]


def test_addenda_follow_their_report_in_the_order_of_time_wherever_they_stand(tmp_path: Path) -> None:
    events = [
        event(1, 100, "later", kind="Addendum", date="2151-08-09"),
        event(2, 101, "other admission"),
        event(3, 100, "earlier", kind="Addendum", date="2151-08-05"),
        event(4, 100, "report", date="2151-08-20"),
    ]
    mimic3(tmp_path, events, [[1, 1, 100, 1, "4019"], [2, 1, 101, 1, "4019"]])
    assert {note.id: note.text for note in notes_of(open_source(str(tmp_path)))} == {
        "100": "report\nearlier\nlater",
        "101": "other admission",
    }


def test_what_is_left_out_of_mimic_iii_is_counted(tmp_path: Path) -> None:
    events = [
        event(1, 100, "kept"),
        event(2, 100, "kept"),
        event(3, 100, "an error", error="1"),
        event(4, None, "no admission"),
        event(5, 102, "no codes"),
        event(6, 100, "nursing", category="Nursing"),
        event(7, 103, " \n"),
    ]
    mimic3(
        tmp_path, events, [[1, 1, 100, 1, "4019"], [2, 1, 100, 2, None], [3, 1, 100, 3, "4019"], [4, 1, 103, 1, "4019"]]
    )
    source = open_source(str(tmp_path))
    assert notes_of(source) == [Note("100", "kept", ("401.9",), "", "1")]
    assert source.total == 1
    assert source.facts == {
        "rows without a code": 1,
        "summaries marked as errors": 1,
        "summaries without an admission": 1,
        "summaries without text": 1,
        "admissions without codes": 1,
    }


def test_titles_of_the_database_and_official_ancestors_make_the_code_book(tmp_path: Path) -> None:
    mimic3(tmp_path, [event(1, 100, "x")], [[1, 1, 100, 1, "4019"]], [[1, 1, 100, 1, "3893"]])
    book = open_source(str(tmp_path)).codebook
    assert book is not None
    assert (book.system, set(book.codes)) == ("icd9", {"401.9", "38.93"})
    assert book.description("38.93") == "Venous catheterization"
    assert "401" in book.ancestors("401.9")


def test_published_id_lists_give_the_splits_and_leave_out_the_rest(tmp_path: Path) -> None:
    events = [event(n, n, "text") for n in (100, 101, 102, 103)]
    mimic3(tmp_path, events, [[n, 1, n, 1, "4019"] for n in (100, 101, 102, 103)])
    for split, admission in (("train", 100), ("dev", 101), ("test", 102)):
        (tmp_path / f"{split}_full_hadm_ids.csv").write_text(f"{admission}\n")
    source = open_source(str(tmp_path))
    assert {note.id: note.split for note in notes_of(source)} == {"100": "train", "101": "dev", "102": "test"}
    assert source.facts == {"admissions in no split list": 1}


@pytest.mark.parametrize(("label_set", "lists", "codes"), [("top50", "50", "TOP_50"), ("rare50", "rare50", "RARE_50")])
def test_a_label_set_takes_its_own_codes_and_id_lists(tmp_path: Path, label_set: str, lists: str, codes: str) -> None:
    mimic3(tmp_path, [event(n, n, "text") for n in (100, 101)], [[1, 1, 100, 1, "4019"], [2, 1, 101, 1, "4280"]])
    splits = tmp_path / "lists"
    splits.mkdir()
    (splits / f"train_{lists}_hadm_ids.csv").write_text("100\n")
    (splits / f"test_{lists}_hadm_ids.csv").write_text("101\n")
    (splits / "train_full_hadm_ids.csv").write_text("999\n")
    (tmp_path / f"{codes}_CODES.csv").write_text("401.9\n")
    options = SourceOptions(label_set=label_set, splits=str(splits))  # type: ignore[arg-type]
    source = open_source(str(tmp_path), options=options)
    assert notes_of(source) == [Note("100", "text", ("401.9",), "train", "1")]
    assert source.facts == {"admissions without a code of the label set": 1}


def test_the_top_50_of_mimic_iii_are_counted_by_admission_where_no_list_is_given(tmp_path: Path) -> None:
    diagnoses = [[1, 1, 100, 1, f"{code}"] for code in range(100, 160)] + [[1, 1, 101, 1, "159"], [2, 1, 101, 2, "158"]]
    mimic3(tmp_path, [event(1, 100, "x"), event(2, 101, "y")], diagnoses)
    first, _ = notes_of(open_source(str(tmp_path), options=SourceOptions(label_set="top50")))
    assert set(first.codes) == {"158", "159"} | {str(code) for code in range(100, 148)}


def test_rare_50_without_its_list_of_codes_is_refused(tmp_path: Path) -> None:
    mimic3(tmp_path, [event(1, 100, "x")], [[1, 1, 100, 1, "4019"]])
    with pytest.raises(InputError, match="--codes-file"):
        open_source(str(tmp_path), options=SourceOptions(label_set="rare50"))


def test_only_diagnoses_or_only_procedures_can_be_taken(tmp_path: Path) -> None:
    mimic3(tmp_path, [event(1, 100, "x")], [[1, 1, 100, 1, "4019"]], [[1, 1, 100, 1, "3893"]])
    [note] = notes_of(open_source(str(tmp_path), options=SourceOptions(system="icd9-procedure")))
    assert note.codes == ("38.93",)


@pytest.mark.parametrize(("system", "codes"), [("", ("I10", "E11.9", "0040")), ("icd9", ("401.9", "00.40"))])
def test_mimic_iv_keeps_the_codes_of_one_version(tmp_path: Path, system: str, codes: tuple[str, ...]) -> None:
    diagnoses = [[7, 200, 1, "I10", 10], [7, 200, 2, "E119", 10], [7, 200, 3, "4019", 9]]
    procedures = [[7, 200, 1, "2180-05-07", "0040", 10], [7, 200, 2, "2180-05-07", "0040", 9]]
    mimic4(tmp_path, [summary(7, 200, REPORT)], diagnoses, procedures)
    options = SourceOptions(system=system, min_code_count=1)
    assert notes_of(open_source(str(tmp_path), options=options)) == [Note("200", REPORT, codes, "", "7")]


def test_mimic_iv_leaves_out_codes_of_fewer_than_ten_notes(tmp_path: Path) -> None:
    notes = [summary(n, 200 + n, "text", 1) for n in range(11)] + [summary(99, 999, "text")]
    diagnoses = [[n, 200 + n, 1, "I10", 10] for n in range(10)] + [[n, 200 + n, 2, "E119", 10] for n in range(9)]
    diagnoses += [[10, 210, 1, "E119", 10], [50, 555, 1, "J45909", 10]] + [[99, 999, 1, "J45909", 10]] * 12
    mimic4(tmp_path, notes, diagnoses)
    source = open_source(str(tmp_path))
    found = notes_of(source)
    assert {code for note in found for code in note.codes} == {"I10", "E11.9"}
    assert len(found) == source.total == 11
    assert source.facts == {"admissions without a code of the label set": 1}


def test_several_notes_of_one_admission_are_one_note_and_repeats_are_dropped(tmp_path: Path) -> None:
    notes = [
        summary(7, 200, "second", 2),
        summary(8, 201, "x"),
        summary(7, 200, "first", 1),
        summary(7, 200, "second", 3),
    ]
    mimic4(tmp_path, notes, [[7, 200, 1, "I10", 10], [8, 201, 1, "I10", 10]])
    found = notes_of(open_source(str(tmp_path), options=SourceOptions(min_code_count=1)))
    assert {note.id: note.text for note in found} == {"200": "first\nsecond", "201": "x"}


def test_splits_of_mimic_iv_come_from_a_table(tmp_path: Path) -> None:
    mimic4(tmp_path, [summary(7, 200, "x")], [[7, 200, 1, "I10", 10]])
    splits = tmp_path / "splits.csv"
    splits.write_text("_id,split\n200,val\n")
    options = SourceOptions(min_code_count=1, splits=str(splits))
    assert [note.split for note in notes_of(open_source(str(tmp_path), options=options))] == ["val"]


def test_an_unknown_icd_version_is_told_by_its_line(tmp_path: Path) -> None:
    mimic4(tmp_path, [summary(7, 200, "x")], [[7, 200, 1, "I10", 10], [7, 200, 2, "CA23", 11]])
    with pytest.raises(InputError, match=r"diagnoses_icd\.csv\.gz, line 3: unknown ICD version '11'; known: 10, 9"):
        open_source(str(tmp_path))


def test_modules_downloaded_to_separate_folders_are_found(tmp_path: Path) -> None:
    mimic4(tmp_path, [summary(7, 200, "x")], [[7, 200, 1, "I10", 10]])
    (tmp_path / "mimiciv" / "2.2").mkdir(parents=True)
    (tmp_path / "mimic-iv-note" / "2.2").mkdir(parents=True)
    (tmp_path / "hosp").rename(tmp_path / "mimiciv" / "2.2" / "hosp")
    (tmp_path / "note").rename(tmp_path / "mimic-iv-note" / "2.2" / "note")
    options = SourceOptions(source="mimic4", min_code_count=1)
    assert [note.id for note in notes_of(open_source(str(tmp_path), options=options))] == ["200"]


def test_a_missing_table_and_a_missing_column_are_told(tmp_path: Path) -> None:
    table(tmp_path / "NOTEEVENTS.csv", ["ROW_ID", "TEXT"], [[1, "x"]])
    with pytest.raises(InputError, match=r"has no diagnoses_icd\.csv"):
        open_source(str(tmp_path))
    mimic3(tmp_path, [], [[1, 1, 100, 1, "4019"]])
    table(tmp_path / "NOTEEVENTS.csv", ["ROW_ID", "TEXT"], [[1, "x"]])
    with pytest.raises(InputError, match=r"NOTEEVENTS\.csv: unknown column 'category'; it has 'row_id', 'text'"):
        open_source(str(tmp_path))


def test_lists_that_name_no_admission_are_told_with_the_counts(tmp_path: Path) -> None:
    mimic3(tmp_path, [event(1, 100, "x"), event(2, 101, "y")], [[1, 1, 100, 1, "4019"]])
    (tmp_path / "train_full_hadm_ids.csv").write_text("999\n")
    with pytest.raises(
        InputError, match=r"no note is left \(1 admissions without codes, 1 admissions in no split list\)"
    ):
        open_source(str(tmp_path))


def test_a_coding_system_that_the_database_does_not_have_is_refused(tmp_path: Path) -> None:
    mimic3(tmp_path, [event(1, 100, "x")], [[1, 1, 100, 1, "4019"]])
    with pytest.raises(InputError, match="mimic3: unknown coding system 'icd10cm'"):
        open_source(str(tmp_path), options=SourceOptions(system="icd10cm"))


def test_progress_is_told_of_the_passes_before_the_first_note(tmp_path: Path) -> None:
    mimic3(tmp_path, [event(n, n, "x") for n in range(1, 2001)], [[n, 1, n, 1, "4019"] for n in range(1, 10_001)])
    told: list[tuple[str, int]] = []
    open_source(str(tmp_path), progress=lambda what, done, total: told.append((what, done)))
    assert told == [
        ("reading diagnoses", 10_000),
        ("finding discharge summaries", 1000),
        ("finding discharge summaries", 2000),
    ]


def test_an_admission_waits_in_memory_only_until_its_last_part() -> None:
    read: list[str] = []

    def parts() -> Iterable[NotePart]:
        for admission in ("1", "2", "1", "3"):
            read.append(admission)
            yield NotePart(admission, "p", (len(read),), f"text {len(read)}")

    admissions = gathered(parts(), {"1": 2, "2": 1, "3": 1})
    assert [part.text for part in next(iter(admissions))] == ["text 2"]
    assert read == ["1", "2"]
    assert [part.text for part in next(admissions)] == ["text 1", "text 3"]
