"""Grades and stages in words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.text.folding import fold
from plant.text.grades import find_grades
from plant.text.tokenizer import tokenize

WRITTEN = [
    ("carcinoma ductal infiltrante grado 2", "grado 2", "grade", 2, 2, "2"),
    ("grado II de la OMS", "grado II", "grade", 2, 2, "2"),
    ("grado histológico III", "grado histológico III", "grade", 3, 3, "3"),
    ("astrocitoma grado IV", "grado IV", "grade", 4, 4, "4"),
    ("carcinoma GII-GIII", "GII-GIII", "grade", 3, 2, "3"),
    ("adenocarcinoma G3 de pulmón", "G3", "grade", 3, 3, "3"),
    ("grado 2/3", "grado 2/3", "grade", 2, 2, "2"),
    ("Gleason 4+3", "Gleason 4+3", "gleason", 7, 7, "2"),
    ("Gleason 7 (3+4)", "Gleason 7 (3+4)", "gleason", 7, 7, "2"),
    ("Gleason score de 3 + 3 = 6", "Gleason score de 3 + 3 = 6", "gleason", 6, 6, "1"),
    ("Gleason 10", "Gleason 10", "gleason", 10, 10, "3"),
    ("grado ISUP 2", "ISUP 2", "grade group", 2, 2, "2"),
    ("Fuhrman 4", "Fuhrman 4", "fuhrman", 4, 4, "4"),
    ("Fuhrman III/IV", "Fuhrman III/IV", "fuhrman", 4, 3, "4"),
    ("grado 3 de Fuhrman", "grado 3 de Fuhrman", "fuhrman", 3, 3, "3"),
    ("moderadamente diferenciado", "moderadamente diferenciado", "differentiation", 2, 2, "2"),
    ("pobremente diferenciada", "pobremente diferenciada", "differentiation", 3, 3, "3"),
    ("poco diferenciado", "poco diferenciado", "differentiation", 3, 3, "3"),
    ("moderadamente a poco diferenciado", "moderadamente a poco diferenciado", "differentiation", 3, 2, "3"),
    ("carcinoma indiferenciado", "indiferenciado", "differentiation", 4, 4, "4"),
    ("well differentiated tumour", "well differentiated", "differentiation", 1, 1, "1"),
    ("grade 2", "grade 2", "grade", 2, 2, "2"),
    ("sarcoma de alto grado", "alto grado", "tier", 4, 4, "4"),
    ("de bajo grado", "bajo grado", "tier", 1, 1, "1"),
    ("high-grade glioma", "high-grade", "tier", 4, 4, "4"),
    ("estadio IIIB", "estadio IIIB", "stage", 3, 3, ""),
    ("stage 4", "stage 4", "stage", 4, 4, ""),
    ("cáncer de pulmón cT2 N3 M1a", "cT2 N3 M1a", "spread", 1, 1, ""),
    ("melanoma pN1 M0", "pN1 M0", "spread", 0, 0, ""),
    ("con M1 al diagnóstico", "M1", "spread", 1, 1, ""),
]
PIECES = ["grado", "g", "2", "ii", "gleason", "+", "=", "(", "4", "7", "-", "/", "fuhrman", "poco", "diferenciado", "a"]
RUNS = re.compile(r"[^\W\d_]+|\d+|\S")


def runs(text: str) -> list[tuple[int, int]]:
    """Runs of letters, runs of digits, single marks."""
    return [found.span() for found in RUNS.finditer(text)]


def whole_words(text: str) -> list[tuple[int, int]]:
    words = tokenize(text, keep_numbers=True)
    return list(zip(words.starts.tolist(), words.ends.tolist(), strict=True))


@pytest.mark.parametrize("text", ["lesión de 3 cm 1 vez", "de 2,5 cm 0 focos", "mm 1", "N1"])
def test_centimetres_and_nodes_are_no_spread(text: str) -> None:
    assert not find_grades([fold(text[start:end]) for start, end in runs(text)])


@pytest.mark.parametrize(("text", "spread"), [("estadio IV", True), ("T1N0M1", True), ("T1N0M0", False), ("G4", False)])
def test_stage_four_and_m1_are_metastatic(text: str, spread: bool) -> None:
    (grade,) = find_grades([fold(text[start:end]) for start, end in runs(text)])
    assert grade.metastatic == spread


@pytest.mark.parametrize(("text", "span", "scale", "value", "lowest", "digit"), WRITTEN)
def test_a_grade_is_read_with_its_scale_and_span(
    text: str, span: str, scale: str, value: int, lowest: int, digit: str
) -> None:
    spans = runs(text)
    (grade,) = find_grades([fold(text[start:end]) for start, end in spans])
    assert text[spans[grade.first][0] : spans[grade.last - 1][1]] == span
    assert (grade.scale, grade.value, grade.lowest, grade.digit) == (scale, value, lowest, digit)


@pytest.mark.parametrize("text", [text for text, *_ in WRITTEN if not re.search("[/-]", text)])
def test_words_without_marks_give_the_same_grade(text: str) -> None:
    (marked,) = find_grades([fold(text[start:end]) for start, end in runs(text)])
    (plain,) = find_grades([fold(text[start:end]) for start, end in whole_words(text)])
    assert (plain.scale, plain.value, plain.digit) == (marked.scale, marked.value, marked.digit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "grado",
        "grado 7",
        "gleason",
        "gleason 1",
        "38 grados",
        "g",
        "mg 3",
        "estadio",
        "bien",
        "tracto gi",
        "g 3 . 5",
    ],
)
def test_what_is_no_grade_is_not_read_as_one(text: str) -> None:
    assert find_grades(text.split()) == ()


def test_two_grades_of_one_note_come_in_reading_order() -> None:
    found = find_grades(["adenocarcinoma", "gleason", "9", "poco", "diferenciado", "estadio", "iv"])
    assert [(grade.scale, grade.first) for grade in found] == [("gleason", 1), ("differentiation", 3), ("stage", 5)]


@given(st.lists(st.sampled_from(PIECES)))
def test_grades_lie_within_the_note_and_do_not_overlap(words: list[str]) -> None:
    found = find_grades(words)
    bounds = [bound for grade in found for bound in (grade.first, grade.last)]
    assert bounds == sorted(bounds)
    assert all(0 <= grade.first < grade.last <= len(words) and grade.lowest <= grade.value for grade in found)
