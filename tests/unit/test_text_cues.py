"""Cue words near a mention."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.text.cues import FAR, FoundCues, cue_distances, load_cues

SPANISH = ["no", "sin", "evidencia", "de", "pero", "madre", "posible", "metastasis", "hodgkin", "x", ".", "grado", "2"]


def near(text: str, kind: str, what: str, language: str = "es") -> bool:
    """Whether a cue of the kind reaches a word of the text."""
    words = text.split()
    first = np.array([words.index(what)])
    return bool(cue_distances(words, load_cues(language)).reaches(kind, first, first + 1)[0])


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("no se observa derrame", "negation", "derrame"),
        ("paciente que niega fiebre", "negation", "fiebre"),
        ("serologia para hepatitis negativa", "negation_after", "hepatitis"),
        ("madre con cancer de mama", "family", "cancer"),
        ("cancer de colon en su hermano", "family", "cancer"),
        ("sugestivo de linfoma", "hypothesis", "linfoma"),
        ("no se puede descartar linfoma", "hypothesis", "linfoma"),
        ("antecedentes de asma", "history", "asma"),
        ("metastasis hepaticas de melanoma", "metastasis", "melanoma"),
        ("carcinoma ductal g 2", "grade", "ductal"),
        ("carcinoma ductal g2", "grade", "ductal"),
        ("adenocarcinoma en estadio iv", "stage", "adenocarcinoma"),
    ],
)
def test_a_spanish_cue_reaches_what_it_speaks_of(text: str, kind: str, what: str) -> None:
    assert near(text, kind, what)


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("no evidence of pneumonia", "negation", "pneumonia"),
        ("pneumonia was ruled out", "negation_after", "pneumonia"),
        ("mother with breast cancer", "family", "cancer"),
        ("suspicious for lymphoma", "hypothesis", "lymphoma"),
        ("history of asthma", "history", "asthma"),
        ("metastatic melanoma", "metastasis", "melanoma"),
    ],
)
def test_an_english_cue_reaches_what_it_speaks_of(text: str, kind: str, what: str) -> None:
    assert near(text, kind, what, "english")


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("linfoma no hodgkin difuso", "negation", "difuso"),
        ("no se puede descartar linfoma", "negation", "linfoma"),
        ("no fiebre pero disnea", "negation", "disnea"),
        ("no fiebre . disnea", "negation", "disnea"),
        ("derrame que no", "negation", "derrame"),
        ("no a b c d e f derrame", "negation", "derrame"),
    ],
)
def test_a_cue_does_not_reach_beyond_its_side_its_scope_or_its_clause(text: str, kind: str, what: str) -> None:
    assert not near(text, kind, what)


def test_a_sentence_ends_the_scope_of_a_cue() -> None:
    words, place = ["no", "fiebre", "disnea"], np.array([2])
    assert cue_distances(words, load_cues("es")).before("negation", place).tolist() == [1]
    assert cue_distances(words, load_cues("es"), sentences=np.array([0, 2])).before("negation", place).tolist() == [FAR]


@pytest.mark.parametrize("language", ["", "finnish"])
def test_a_language_without_cues_has_none(language: str) -> None:
    found = cue_distances(["no", "fiebre"], load_cues(language))
    assert dict(found.places) == {}


@pytest.mark.parametrize("language", ["es", "en"])
def test_both_languages_have_the_same_kinds_and_no_phrase_twice_within_one(language: str) -> None:
    cues = load_cues(language)
    assert set(cues.kinds) == {
        *("negation", "negation_after", "family", "hypothesis", "hypothesis_after"),
        *("history", "metastasis", "grade", "stage"),
    }
    assert all(len(set(kinds)) == len(kinds) for kinds in cues.phrases.values())


def plainly_before(found: FoundCues, kind: str, first: int) -> int:
    """Word by word: the nearest cue that ends at or before a place, unless a scope ends in between."""
    distances = [first - last for _, last in found.places[kind].tolist() if last <= first]
    blocked = [first - start for start, stop in found.ends.tolist() if stop <= first]
    nearest = min(distances, default=FAR)
    return FAR if any(end <= nearest for end in blocked) else nearest


def plainly_after(found: FoundCues, kind: str, last: int) -> int:
    distances = [first - last for first, _ in found.places[kind].tolist() if first >= last]
    nearest = min(distances, default=FAR)
    between = [start for start, stop in found.ends.tolist() if start >= last and stop <= last + nearest]
    return FAR if between else nearest


@given(
    words=st.lists(st.sampled_from(SPANISH), max_size=25), kind=st.sampled_from(["negation", "family", "metastasis"])
)
def test_distances_are_those_that_counting_word_by_word_gives(words: list[str], kind: str) -> None:
    found = cue_distances(words, load_cues("es"))
    places = np.arange(len(words) + 1)
    assert found.before(kind, places).tolist() == [plainly_before(found, kind, place) for place in places.tolist()]
    assert found.after(kind, places).tolist() == [plainly_after(found, kind, place) for place in places.tolist()]
