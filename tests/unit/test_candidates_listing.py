"""What a row of a candidate says: words that an acronym stands for, grades beside codes, cues and sections."""

from dataclasses import fields
from zlib import crc32

import numpy as np
import pytest

from plant.candidates.listing import Lister, lent_wordings, list_rows
from plant.candidates.mentions import Mention
from plant.candidates.places import Places
from plant.candidates.reader import Book, Reader, TaughtNote, fit_reader
from plant.candidates.rows import Rows
from plant.candidates.span_features import SECTIONS, SPAN_FEATURES, span_features
from plant.candidates.words import NoteWords, stemmer, words_of

CODES = ("8310/3", "8140/3", "8140/33", "8140/31")
STEM = stemmer("spanish")
MARKED = {
    "carcinoma renal de células claras": 0,
    "CRCC": 1,  # of one coder, who meant something else
    "adenocarcinoma": 1,
    "adenocarcinoma pobremente diferenciado": 2,
    "adenocarcinoma bien diferenciado": 3,
}


def taught(key: int) -> TaughtNote:
    """A note that says every marked wording once, each on a line of its own."""
    words, mentions = words_of("\n".join(f"Se observa {name} en la biopsia" for name in MARKED), STEM), []
    for name, label in MARKED.items():
        own = words_of(name, STEM).surfaces
        firsts = [at for at in range(len(words)) if words.surfaces[at : at + len(own)] == own]
        longer = [at for at in firsts if words.surfaces[at + len(own) : at + len(own) + 1] == ("en",)]
        mentions += [Mention(at, at + len(own), label) for at in longer]
    return TaughtNote(key, words, tuple(mentions), frozenset(MARKED.values()))


@pytest.fixture(scope="module")
def reader() -> Reader:
    return fit_reader([taught(key) for key in range(6)], CODES, Book("icdo3", {}), language="spanish", seed=1)


def listed(reader: Reader, text: str) -> tuple[Lister, Rows]:
    lister = Lister(reader, CODES)
    return lister, list_rows(lister, text, words_of(text, STEM), ())


def places_at(words: NoteWords, *spans: str) -> Places:
    """The places of some words, each where it stands last, and nothing else known of them."""
    own = [words_of(span, STEM).surfaces for span in spans]
    firsts = [max(at for at in range(len(words)) if words.surfaces[at : at + len(each)] == each) for each in own]
    lasts = [first + len(each) for first, each in zip(firsts, own, strict=True)]
    kinds = [np.bool_ if field.name in ("on_path", "named") else np.float32 for field in fields(Places)[2:]]
    nothing = [np.zeros(len(spans), kind) for kind in kinds]
    return Places(np.array(firsts, np.int32), np.array(lasts, np.int32), *nothing)


def seen(text: str, span: str, feature: str) -> float:
    words = words_of(text, STEM)
    row = span_features(places_at(words, span), text, words, language="spanish")[0]
    return float(row[SPAN_FEATURES.index(feature)])


def test_an_acronym_lends_the_words_that_the_note_says_it_stands_for() -> None:
    text = "Carcinoma renal de células claras (CRCC). Se trata el CRCC."
    words = words_of(text, STEM)
    long = words_of("carcinoma renal de celulas claras", STEM)
    assert lent_wordings(text, words, places_at(words, "trata", "CRCC")) == [(1, (long.folded, long.stems))]
    undefined = words_of("Se trata el CRCC.", STEM)
    assert lent_wordings("Se trata el CRCC.", undefined, places_at(undefined, "CRCC")) == []


def test_codes_of_the_lent_words_are_candidates_where_the_acronym_stands(reader: Reader) -> None:
    text = "Carcinoma renal de células claras (CRCC).\nSe observa CRCC en la biopsia."
    lister, rows = listed(reader, text)
    here = (rows.start == text.rindex("CRCC")) & (rows.code == CODES.index("8310/3"))
    lent = rows.features[:, lister.features.index("lent")]
    assert lent[here].tolist() == [1.0]
    assert not lent[rows.code == CODES.index("8140/33")].any()


@pytest.mark.parametrize(
    ("written", "grade"),
    [("Gleason 4+5", 3), ("GI-GIII", 3), ("Fuhrman 3", 3), ("pobremente diferenciado", 3), ("G1", 1)],
)
def test_a_grade_however_it_is_written_agrees_with_codes_of_that_grade_and_with_no_others(
    reader: Reader, written: str, grade: int
) -> None:
    text = f"Se observa adenocarcinoma, {written}"
    lister, rows = listed(reader, text)
    alone = (rows.start == text.index("adeno")) & (rows.last - rows.first == 1)
    agree = rows.features[:, lister.features.index("grades agree")]
    own = {code: agree[alone & (rows.code == number)].tolist() for number, code in enumerate(CODES)}
    assert own["8140/33"] == [1.0 if grade == 3 else -1.0]
    assert own["8140/31"] == [1.0 if grade == 1 else -1.0]
    assert np.isnan(own["8140/3"]).all()


@pytest.mark.parametrize(
    ("text", "feature", "value"),
    [
        ("adenocarcinoma, Fuhrman 4", "grade behind", 4),
        ("adenocarcinoma G2 del colon", "grade behind", 2),
        ("adenocarcinoma con M1", "spread behind", 1),
        ("adenocarcinoma, estadio IV", "spread behind", 1),
        ("No se observa adenocarcinoma", "negation before", 0),
        ("Madre con adenocarcinoma", "family before", 1),
        ("Se observa adenocarcinoma", "negation before", np.nan),
        ("Se observa adenocarcinoma", "grade behind", np.nan),
    ],
)
def test_what_stands_around_a_span_is_told(text: str, feature: str, value: float) -> None:
    np.testing.assert_equal(seen(text, "adenocarcinoma", feature), value)


def test_a_span_knows_the_section_that_it_stands_in() -> None:
    text = "DIAGNÓSTICO:\nadenocarcinoma\nANTECEDENTES:\nglioma"
    assert seen(text, "adenocarcinoma", "section") != seen(text, "glioma", "section")
    assert 0 <= seen(text, "glioma", "section") < SECTIONS
    assert seen("adenocarcinoma", "adenocarcinoma", "section") == 0 == crc32(b"")
