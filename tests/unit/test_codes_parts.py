"""Codes as parts and back."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plant.codes.files import read_codebook
from plant.codes.icd import KNOWN_SYSTEMS, normalise_all
from plant.codes.lists import titles
from plant.codes.parts import WRITTEN, code_parts, join_parts, parts_of, recombined, title_of_parts
from plant.codes.systems import SYSTEMS
from plant.errors import CodeError

SPLIT = [
    ("icdo3", "8140/33/H", ("8140", "3", "3", "H")),
    ("icdo3", "8140/3/H", ("8140", "3", "", "H")),
    ("icdo3", "8140/32", ("8140", "3", "2", "")),
    ("icdo3", "8140/6", ("8140", "6", "", "")),
    ("icdo3", "8140", ("8140", "", "", "")),
    ("icdo3", "800-809", ("800-809", "", "", "")),
    ("icd10cm", "C50.911", ("C50", "9", "11")),
    ("icd10cm", "I10", ("I10", "", "")),
    ("icd10cm", "C7A.0", ("C7A", "0", "")),
    ("icd10cm", "M48.50XA", ("M48", "5", "0XA")),
    ("icd10pcs", "0DB68ZX", ("0", "D", "B", "6", "8", "Z", "X")),
    ("icd10pcs", "BW24", ("B", "W", "2", "4", "", "", "")),
    ("icd10pcs", "0DB68", ("0DB68", "", "", "", "", "", "")),
    ("icd9-diagnosis", "250.02", ("250", "02")),
    ("icd9-diagnosis", "E878.1", ("E878", "1")),
    ("icd9-procedure", "36.15", ("36", "15")),
    ("icd9", "V10.3", ("V10", "3", "", "")),
    ("icd9", "36.15", ("", "", "36", "15")),
    ("icd10", "E11.9", ("E11", "9", "", "", "", "", "", "", "", "")),
    ("icd10", "0DB68ZX", ("", "", "", "0", "D", "B", "6", "8", "Z", "X")),
    ("other", "8140/33/H", ("8140/33/H",)),
    ("mesh", "C04.588.180", ("C04.588.180",)),
]
STRANGE = [
    "",
    "/",
    ".",
    "8140/",
    "8140/3/",
    "8140/3//H",
    "8140/H",
    "C50.",
    "C5011",
    "c50.9",
    " I10",
    "I10\n",
    "٣٣٣",
    "E878.12",
]


@pytest.mark.parametrize(("system", "code", "parts"), SPLIT)
def test_a_code_is_split_into_the_parts_that_its_system_names(system: str, code: str, parts: tuple[str, ...]) -> None:
    assert parts_of(system, code) == parts
    assert len(parts) == len(code_parts(system).names)
    assert join_parts(system, parts) == code


@pytest.mark.parametrize("system", sorted(WRITTEN))
def test_the_names_of_parts_are_distinct(system: str) -> None:
    assert len(set(code_parts(system).names)) == len(code_parts(system).names)


@pytest.mark.parametrize("system", ["icd9-diagnosis", "icd9-procedure", "icd10cm", "icd10pcs"])
def test_every_code_of_the_packaged_lists_has_parts_and_is_joined_again(system: str) -> None:
    codes = normalise_all(list(titles(system)), system)
    parts = code_parts(system)
    split = [parts.split(code) for code in codes]
    assert [parts.join(these) for these in split] == codes
    assert [code for code, these in zip(codes, split, strict=True) if these[0] == code and len(code) > 4] == []


@pytest.mark.parametrize(
    ("file", "system"),
    [
        ("cantemist/labels.tsv", "icdo3"),
        ("cantemist/icdo3_catalogue.tsv", "icdo3"),
        ("codiesp_d/labels.tsv", "icd10cm"),
        ("codiesp_p/labels.tsv", "icd10pcs"),
        ("yso/labels.tsv", "other"),
    ],
)
def test_every_code_of_a_corpus_is_joined_again(corpora: Path, file: str, system: str) -> None:
    codes = read_codebook(corpora / file).codes
    parts = code_parts(system)
    assert [parts.join(parts.split(code)) for code in codes] == list(codes)


@pytest.mark.parametrize("system", [*KNOWN_SYSTEMS, "mesh", ""])
@given(code=st.one_of(st.sampled_from(STRANGE), st.text(max_size=12), st.text("0189/.HCVEX", max_size=9)))
def test_any_text_is_joined_again(system: str, code: str) -> None:
    parts = code_parts(system)
    split = parts.split(code)
    assert len(split) == len(parts.names)
    assert parts.go_together(split)
    assert parts.join(split) == code


@pytest.mark.parametrize("system", sorted(WRITTEN))
@given(data=st.data())
def test_parts_are_those_of_all_codes_that_the_system_writes_and_of_no_others(system: str, data: st.DataObject) -> None:
    written = data.draw(st.from_regex(SYSTEMS[system].written, fullmatch=True))
    assert WRITTEN[system].split(written) is not None
    strange = data.draw(st.one_of(st.sampled_from(STRANGE), st.text("0189/.HCVEX", max_size=9)))
    assert (WRITTEN[system].split(strange) is None) == (SYSTEMS[system].written.fullmatch(strange) is None)


@given(parts=st.tuples(*[st.sampled_from(values) for values in (["8140", "9", ""], ["3", ""], ["2", ""], ["H", ""])]))
@example(("8140", "", "2", ""))
@example(("8140", "", "", "H"))
@example(("8140", "", "3", "H"))
def test_parts_go_together_only_where_they_are_those_of_the_code_they_make(parts: tuple[str, ...]) -> None:
    icdo3 = code_parts("icdo3")
    assert icdo3.go_together(parts) == (parts[0] == "8140" and (parts[1] != "" or parts[2:] == ("", ""))) or (
        sum(map(bool, parts)) <= 1
    )
    if not icdo3.go_together(parts):
        with pytest.raises(CodeError, match="4 parts that make no code; a code has histology, behaviour, grade"):
            icdo3.join(parts)


def test_later_parts_of_a_morphology_go_behind_any_histology_and_listed_systems_have_no_further_codes() -> None:
    new = recombined("icdo3", ["8140/3", "8500/33"], ["8140/3", "8500/33", "8000/6"])
    assert set(new) == {"8140/33", "8140/6", "8500/3", "8500/6"}
    assert recombined("icd10cm", ["C50.911", "C34.1"], ["C50.911"]) == ()


def test_a_code_without_a_title_has_that_of_the_nearest_and_its_parts() -> None:
    titles = {"8140/3": "Adenocarcinoma", "8140/33": "Adenocarcinoma, G3"}
    assert title_of_parts("icdo3", "8140/33/H", titles) == "Adenocarcinoma, G3; qualifier H"
    assert title_of_parts("icdo3", "8140/32", titles) == "Adenocarcinoma; grade 2"
    assert title_of_parts("icdo3", "8500/3", titles) == ""
