"""Words, sentences and mentions as readers see them."""

import numpy as np
import pytest

from plant.candidates.mentions import Mention, mentions_of
from plant.candidates.words import folded, stemmer, words_of
from plant.errors import RecipeError

ODD = [
    "",
    "x",
    "   \n ",
    "Tumor\x00maligno",
    "e\u0301stasis y \u0301solo",
    "👩‍⚕️ carcinoma 🙂",
    "H2O, 3ª ½ (pT2N0) ´",
    "solo \ud800 resto",
    "a\u00adb\u200bc",
    "Fin. Otra\u2028línea\r\ny más… Última",
]


@pytest.mark.parametrize("text", ODD)
def test_surfaces_are_what_stands_at_their_places(text: str) -> None:
    words = words_of(text, stemmer("spanish"))
    bounds = zip(words.starts.tolist(), words.ends.tolist(), strict=True)
    assert tuple(text[start:end] for start, end in bounds) == words.surfaces


@pytest.mark.parametrize("text", ODD)
def test_words_leave_out_nothing_but_space(text: str) -> None:
    assert "".join(words_of(text, stemmer("")).surfaces) == "".join(text.split())


@pytest.mark.parametrize("text", ODD)
def test_every_word_lies_in_one_sentence(text: str) -> None:
    words = words_of(text, stemmer("spanish"))
    assert words.sentences[-1] == len(words)
    assert (np.diff(words.sentences) > 0).all()
    assert len(words) == 0 or words.sentences[0] == 0


def test_letters_digits_and_marks_are_apart() -> None:
    assert words_of("pT2 (G3).", stemmer("")).surfaces == ("pT", "2", "(", "G", "3", ")", ".")


def test_combining_accents_belong_to_their_letter_and_fold_away() -> None:
    words = words_of("Metástasis metástasis", stemmer("spanish"))
    assert words.folded == ("metastasis", "metastasis")
    assert len(set(words.stems)) == 1


def test_stems_are_those_of_the_language_without_accents() -> None:
    words = words_of("Metástasis hepáticas", stemmer("spanish"))
    assert words.stems == ("metastasis", "hepat")


def test_without_a_language_stems_are_folded_words() -> None:
    words = words_of("Metástasis HEPÁTICAS 12 ´", stemmer(""))
    assert words.stems == words.folded


def test_an_unknown_language_is_told() -> None:
    with pytest.raises(RecipeError, match="klingon"):
        stemmer("klingon")


def test_a_mark_that_is_only_an_accent_stays_itself() -> None:
    assert folded("´") == "´"
    assert folded("\u0301") == "\u0301"


def test_a_sentence_ends_at_a_full_stop_before_a_capital_or_at_a_new_line() -> None:
    words = words_of("Uno. Dos. tres 3.5 A.B\ncuatro", stemmer(""))
    assert [words.surfaces[first] for first in words.sentences[:-1]] == ["Uno", "Dos", "cuatro"]


def test_mentions_take_words_of_which_a_part_is_marked_and_no_space() -> None:
    words = words_of("un carcinoma ductal.", stemmer(""))
    spans = np.array([[3, 12], [5, 17], [2, 3], [12, 13], [3, 12]], np.int32)
    assert mentions_of(words, spans, np.array([7, 8, 9, 9, 7], np.int32)) == (Mention(1, 2, 7), Mention(1, 3, 8))


def test_no_marks_are_no_mentions() -> None:
    assert mentions_of(words_of("a", stemmer("")), np.zeros((0, 2), np.int32), np.zeros(0, np.int32)) == ()
