"""Whatever the text: spans point at their words, and the compiled scan agrees with a plain one."""

import unicodedata
from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plant.text.surfaces import Surfaces, scan_words
from plant.text.tokenizer import JOINERS, code_points, find_words, form, tokenize
from plant.text.vocab import SPECIAL, UNKNOWN, build_vocab

texts = st.text(st.characters(codec="utf-8") | st.sampled_from("aA1é\u0301ﬁ\u00ad \n"), max_size=80)


def _plain_words(text: str) -> list[tuple[int, int]]:
    """Runs of letters, digits and marks, cut at leading marks; one character at a time."""

    def kind(character: str) -> str:
        category = unicodedata.category(character)
        if category[0] == "M" or character in JOINERS:
            return "mark"
        return {"L": "letter", "Nd": "digit", "Nl": "letter"}.get(category if category[0] == "N" else category[0], "")

    words = []
    for inside, run in groupby(range(len(text)), key=lambda i: kind(text[i]) != ""):
        places = list(run)
        while places and kind(text[places[0]]) == "mark":
            places.pop(0)
        if inside and any(kind(text[i]) == "letter" for i in places):
            words.append((places[0], places[-1] + 1))
    return words


@given(texts)
def test_the_scan_agrees_with_a_plain_loop(text: str) -> None:
    starts, ends = find_words(code_points(text), keep_numbers=False)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == _plain_words(text)


@given(texts, st.booleans())
def test_the_compiled_scan_finds_the_same_words(text: str, keep_numbers: bool) -> None:
    points = code_points(text)
    np.testing.assert_array_equal(
        scan_words(points, keep_numbers=keep_numbers), find_words(points, keep_numbers=keep_numbers)
    )


@given(texts)
def test_spans_point_at_their_words(text: str) -> None:
    words = tokenize(text)
    for word, start, end in zip(words.forms, words.starts, words.ends, strict=True):
        assert form(text[start:end]) == word


@given(texts)
def test_composition_does_not_matter(text: str) -> None:
    composed, decomposed = (tokenize(unicodedata.normalize(kind, text)).forms for kind in ("NFC", "NFD"))
    assert composed == decomposed


@given(st.lists(texts, max_size=8))
def test_surfaces_number_distinct_words_in_order_of_first_sight(many: list[str]) -> None:
    surfaces, seen = Surfaces(), {}
    for text in many:
        points = code_points(text)
        starts, ends = find_words(points, keep_numbers=False)
        expected = [seen.setdefault(text[s:e], len(seen)) for s, e in zip(starts, ends, strict=True)]
        np.testing.assert_array_equal(surfaces.number(points, starts, ends), expected)
    assert surfaces.forms() == [form(word) for word in seen]


def test_surfaces_grow_beyond_their_first_table() -> None:
    surfaces = Surfaces()
    words = [f"w{number}x" for number in range(30_000)]
    for first in range(0, len(words), 1000):
        text = " ".join(words[first : first + 1000])
        points = code_points(text)
        surfaces.number(points, *find_words(points, keep_numbers=False))
    assert surfaces.forms() == words


@given(st.dictionaries(st.text("abcé", min_size=1, max_size=3), st.integers(1, 5)))
def test_the_vocabulary_does_not_depend_on_the_order_of_counting(counts: dict[str, int]) -> None:
    backwards = dict(reversed(counts.items()))
    vocab = build_vocab(counts, min_count=2, max_size=10)
    assert vocab == build_vocab(backwards, min_count=2, max_size=10)
    assert vocab.tokens[:2] == SPECIAL
    assert len(vocab) <= 10
    assert all(counts[word] >= 2 for word in vocab.tokens[2:])
    assert vocab.encode(["never seen"]).tolist() == [UNKNOWN]
