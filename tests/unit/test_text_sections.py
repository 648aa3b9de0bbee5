"""Headings and the sections below them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.text.sections import sections_of

NOTE = "Varón de 60 años.\nANTECEDENTES PERSONALES\nAsma.\nExploración física: normal.\n## Diagnóstico\nNeumonía.\n"


def test_sections_begin_at_their_headings_and_have_one_name_each() -> None:
    sections = sections_of(NOTE, "es")
    assert sections.names == ("", "history", "examination", "diagnosis")
    assert [NOTE[start:].split("\n")[0] for start in sections.starts] == NOTE.split("\n")[0:2] + NOTE.split("\n")[3:5]


def test_a_character_is_in_the_section_whose_heading_stands_last_before_it() -> None:
    sections = sections_of(NOTE, "spanish")
    places = np.array([NOTE.index(word) for word in ("Varón", "Asma", "normal", "Neumonía")])
    assert [sections.names[number] for number in sections.at(places)] == ["", "history", "examination", "diagnosis"]


@pytest.mark.parametrize(
    "line",
    [
        "DIAGNÓSTICO",
        "Diagnóstico",
        "Diagnostico:",
        "3. Diagnóstico",
        "- DIAGNOSTICO: neumonía",
        "**Diagnóstico:** x",
        "# Diagnóstico",
    ],
)
def test_a_heading_has_the_same_name_however_it_is_written(line: str) -> None:
    assert sections_of(f"Texto.\n{line}\nmás", "es").names == ("", "diagnosis")


@pytest.mark.parametrize(
    "line",
    [
        "dolor: sí",
        "Acudió a urgencias por dolor.",
        "TA",
        "120/80",
        "Se le dijo lo siguiente, entre otras cosas: reposo",
        "",
    ],
)
def test_what_is_no_heading_begins_no_section(line: str) -> None:
    assert sections_of(f"Texto.\n{line}\nmás", "es").names == ("",)


def test_an_unknown_heading_has_the_same_number_in_all_notes_and_languages() -> None:
    (_, one), (_, other) = (
        sections_of("Varón de 60 años.\nCONSTANTES RARAS\nb").names,
        sections_of("c\nConstantes raras: d", "en").names,
    )
    assert one == other
    assert one not in ("", "constantes raras")


def test_in_a_note_of_capitals_lines_in_capitals_are_no_headings() -> None:
    assert sections_of("VARON CON DOLOR TORACICO\nDE DOS HORAS\nDIAGNOSTICO\nIAM", "es").names == ("", "diagnosis")


@given(st.text("Aa b:#*\n.1É", max_size=80))
def test_any_text_has_sections_in_order_from_its_first_character_on(text: str) -> None:
    sections = sections_of(text, "es")
    assert sections.starts[0] == 0
    assert sections.starts.tolist() == sorted(sections.starts.tolist())
    assert len(sections.starts) == len(sections.names)
    assert (sections.at(np.arange(len(text))) >= 0).all()
