"""Acronyms that a note defines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.text.acronyms import defined_acronyms


def pairs(text: str) -> list[tuple[str, str]]:
    found = defined_acronyms(text)
    assert all(text[one.short_start : one.short_end] == one.short for one in found)
    return [(one.short, text[one.long_start : one.long_end]) for one in found]


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("Presentaba un carcinoma renal de células claras (CRCC).", "CRCC", "carcinoma renal de células claras"),
        ("Dx: CRCC (carcinoma renal de células claras).", "CRCC", "carcinoma renal de células claras"),
        ("con hipertensión arterial (HTA) y", "HTA", "hipertensión arterial"),
        ("carcinoma ductal infiltrante (CDI, grado 2)", "CDI", "carcinoma ductal infiltrante"),
        ("chronic obstructive pulmonary disease [COPD]", "COPD", "chronic obstructive pulmonary disease"),
        ("Árbol traqueobronquial izquierdo (ATI)", "ATI", "Árbol traqueobronquial izquierdo"),
        ("enfermedad pulmonar obstructiva crónica (EPOC) y asma", "EPOC", "enfermedad pulmonar obstructiva crónica"),
        ("linfoma B difuso de células grandes (LBDCG)", "LBDCG", "linfoma B difuso de células grandes"),
    ],
)
def test_a_definition_is_found_in_both_orders(text: str, short: str, long: str) -> None:
    assert pairs(text) == [(short, long)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "un varón (HTA)",
        "carcinoma ductal (ver abajo)",
        "hemoglobina (12 g/dl)",
        "se hizo una TC (TC)",
        "carcinoma. (CRCC)",
        "dolor (no)",
        "TC (sin contraste)",
        "hemoglobina total alta (h",
    ],
)
def test_a_parenthesis_without_a_definition_gives_none(text: str) -> None:
    assert pairs(text) == []


def test_the_words_of_another_sentence_are_no_long_form() -> None:
    assert pairs("Carcinoma renal. De células claras (CRCC)") == []


def test_definitions_come_in_reading_order() -> None:
    text = "hipertensión arterial (HTA), diabetes mellitus (DM) y TEP (tromboembolismo pulmonar)"
    assert [short for short, _ in pairs(text)] == ["HTA", "DM", "TEP"]


@given(st.text("ABab ().,é1", max_size=60))
def test_spans_of_definitions_lie_in_the_text_and_hold_the_letters_in_order(text: str) -> None:
    for short, long in pairs(text):
        rest = iter(long.lower().replace("é", "e"))
        assert all(letter in rest for letter in short.lower().replace("é", "e") if letter.isalnum())
