"""Evidence spans point at the words that weigh most."""

import numpy as np

from plant.cli.highlight import html_page, terminal_text
from plant.explain.spans import evidence_of_all, evidence_spans
from plant.types import Evidence, Prediction, ScoredCode

TEXT = "severe chest pain and then no fever at all"
STARTS = np.array([0, 7, 13, 18, 22, 27, 30, 36, 39], np.int32)
ENDS = np.array([6, 12, 17, 21, 26, 29, 35, 38, 42], np.int32)


def spans(*weights: float, most: int = 5) -> list[tuple[str, float]]:
    found = evidence_spans(np.array(weights, np.float64), STARTS, ENDS, TEXT, most=most)
    return [(span.text, span.weight) for span in found]


def test_neighbouring_strong_words_are_one_phrase() -> None:
    assert spans(0, 2, 2, 0, 0, 0, 1, 0, 0) == [("chest pain", 0.8), ("fever", 0.2)]


def test_weak_and_negative_words_are_no_evidence() -> None:
    assert spans(-5, 10, 0.1, 0, 0, 0, 0, 0, 0) == [("chest", round(10 / 10.1, 6))]
    assert spans(*[0.0] * 9) == []
    assert spans(*[-1.0] * 9) == []


def test_only_the_strongest_phrases_are_shown() -> None:
    assert [text for text, _ in spans(1, 0, 0, 0, 1.1, 0, 0, 0, 1.2, most=2)] == ["all", "then"]


def test_a_phrase_is_shown_with_why_it_means_the_code_and_its_rivals() -> None:
    text = "seen with acute bronchitis today"
    evidence = (Evidence(10, 26, "acute bronchitis", 1.0, "marked words", ("J40", "J41")),)
    prediction = Prediction("7", (ScoredCode("J20", "Acute bronchitis", 0.9, True, evidence),))
    assert ">acute bronchitis< today  [marked words; also J40, J41]" in terminal_text(text, prediction, colour=False)
    assert 'title="marked words; also J40, J41">acute bronchitis</mark>' in html_page(text, prediction)


def test_codes_taken_together_have_the_evidence_of_each_by_itself() -> None:
    weights = np.random.default_rng(0).random((6, len(STARTS)))
    weights[weights < 0.5] = 0
    weights[2] = 0
    together = evidence_of_all(weights, STARTS, ENDS, TEXT, most=3)
    assert together == [evidence_spans(row, STARTS, ENDS, TEXT, most=3) for row in weights]
    assert [bool(found) for found in together] == [True, True, False, True, True, True]
