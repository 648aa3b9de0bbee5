"""Evidence that people can read: whole mentions, joined, with what changes their meaning."""

import doctest

import pytest

import plant.explain.phrases
from plant.explain.phrases import cautioned, phrases, read_text
from plant.types import Evidence


def evidence(note: str, words: str, weight: float = 1.0) -> Evidence:
    start = note.index(words)
    return Evidence(start, start + len(words), words, weight)


def lit(note: str, words: list[str], names: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    found = phrases(read_text(note), [evidence(note, word, 1 / len(words)) for word in words], names)
    return [(note[one.start : one.end], one.caution, one.matched) for one in found]


def test_examples_are_true() -> None:
    assert not doctest.testmod(plant.explain.phrases).failed


def test_a_word_grows_into_the_mention_that_a_name_has() -> None:
    note = "The patient was seen for carcinoma of the left breast with pain."
    assert lit(note, ["carcinoma"], ("Carcinoma of breast",))[0][0] == "carcinoma"  # 'left' stands between
    note = "The patient was seen for carcinoma of breast with pain."
    assert lit(note, ["breast"], ("Carcinoma of breast",)) == [("carcinoma of breast", "", "Carcinoma of breast")]


def test_inflected_words_of_a_name_count() -> None:
    note = "Known for chronic kidneys failing."
    assert lit(note, ["kidneys"], ("chronic kidney disease",))[0][0] == "chronic kidneys"


def test_parts_of_a_sentence_are_joined_and_their_weights_added() -> None:
    note = "He has failure of the heart. Kidney failure too."
    found = phrases(read_text(note), [evidence(note, "failure", 0.5), evidence(note, "Kidney failure", 0.3)])
    assert [(note[one.start : one.end], one.weight) for one in found] == [("failure", 0.5), ("Kidney failure", 0.3)]
    note = "The failure in heart was known."
    both = phrases(read_text(note), [evidence(note, "failure", 0.5), evidence(note, "heart", 0.25)])
    assert [(note[one.start : one.end], one.weight) for one in both] == [("failure in heart", 0.75)]


def test_no_phrase_crosses_a_sentence() -> None:
    note = "It was the heart. Failure was the word of the day."
    assert lit(note, ["heart"], ("heart failure",))[0][0] == "heart"


def test_function_words_at_the_ends_are_left_out() -> None:
    note = "She was in the hospital with the flu and was well."
    found = phrases(read_text(note), [evidence(note, "with the flu and")])
    assert note[found[0].start : found[0].end] == "flu"


@pytest.mark.parametrize(
    ("note", "words", "caution", "cue"),
    [
        ("There is no evidence of pneumonia in the scan of the chest.", "pneumonia", "negated", "no evidence of"),
        ("The mother of the patient had asthma and was in the clinic.", "asthma", "family", "mother"),
        ("This was a possible stroke of the left side on the scan.", "stroke", "uncertain", "possible"),
        ("A history of gout and of the usual was told by the family.", "gout", "family", "family"),
        ("The patient has a history of gout in the left foot.", "gout", "history", "history of"),
        ("The patient has gout in the left foot.", "gout", "", None),
        ("No se observa metástasis en la tomografía de la paciente.", "metástasis", "negated", "No se observa"),
    ],
)
def test_what_changes_the_meaning_is_told_with_its_place(note: str, words: str, caution: str, cue: str | None) -> None:
    [found] = cautioned(read_text(note), [evidence(note, words)])
    told = note[found.cue[0] : found.cue[1]] if found.cue else None
    assert (found.caution, told) == (caution, cue)


def test_all_of_a_family_section_is_the_familys() -> None:
    note = "HISTORY OF PRESENT ILLNESS:\nThe cough is of the week.\n\nFAMILY HISTORY:\nStroke, gout.\n"
    [found] = cautioned(read_text(note), [evidence(note, "gout")])
    assert found.caution == "family"


@pytest.mark.parametrize("note", ["", "   ", "...", "🫁", "\x00"])
def test_texts_without_words_have_no_phrases(note: str) -> None:
    assert phrases(read_text(note), []) == ()
    assert phrases(read_text(note), [Evidence(0, len(note), note, 1.0)]) == ()
