"""Words keep their spans and one spelling, whatever Unicode does."""

import pytest

from plant.text.tokenizer import tokenize


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("Niño con TOS", ("niño", "con", "tos")),
        ("cafe\u0301 café", ("café", "café")),
        ("ﬁbrosis", ("fibrosis",)),
        ("a\u00adb", ("ab",)),
        ("one\r\ntwo", ("one", "two")),
        ("[**2155-3-1**] seen at [**Hospital1 18**]", ("seen", "at", "hospital1")),
        ("pT2N0M0 b12 123 45%", ("pt2n0m0", "b12")),
        ("l'ictus x-ray a_b", ("l", "ictus", "x", "ray", "a", "b")),
        ("\u0301 stray mark", ("stray", "mark")),
        ("Ⅳ ª", ("iv", "a")),
        ("αΒ ДА 肺炎", ("αβ", "да", "肺炎")),
        ("", ()),
        ("12 34", ()),
    ],
)
def test_words_of_a_text(text: str, forms: tuple[str, ...]) -> None:
    assert tokenize(text).forms == forms


def test_numbers_are_kept_on_request() -> None:
    assert tokenize("grade 3 of 4", keep_numbers=True).forms == ("grade", "3", "of", "4")
