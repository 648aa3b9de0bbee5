"""The demo corpus: evidence points at its words, whatever is marked, wrapped or misspelt."""

import re
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from plant.data.sources.demo import demo_notes
from plant.data.sources.demo.paraphrase import names_from
from plant.data.sources.demo.wording import enumerated, expand, mark, misspelt, sentence, unmark, wrapped

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x02\x03\x04"), max_size=30)
CODES = st.lists(st.sampled_from(["I10", "E11.9", "S72.001A"]), max_size=3, unique=True)


@given(st.lists(st.tuples(TEXT, CODES), max_size=8))
def test_unmarking_gives_back_the_text_and_where_each_code_stood(pieces: list[tuple[str, list[str]]]) -> None:
    text, evidence = unmark("".join(mark(piece, codes) for piece, codes in pieces))
    assert text == "".join(piece for piece, _ in pieces)
    for code in ("I10", "E11.9", "S72.001A"):
        words = [piece for piece, codes in pieces if code in codes]
        assert [text[span.start : span.end] for span in evidence.get(code, ())] == words


@given(st.text(max_size=300), st.integers(5, 60))
def test_wrapping_only_turns_spaces_into_line_breaks(text: str, width: int) -> None:
    after = wrapped(text, width)
    assert len(after) == len(text)
    assert all(new == old or (old == " " and new == "\n") for old, new in zip(text, after, strict=True))


@given(st.lists(st.text("abc", min_size=1, max_size=9), max_size=40), st.integers(10, 40))
def test_wrapped_lines_are_no_wider_than_asked(words: list[str], width: int) -> None:
    assert all(len(line) <= width for line in wrapped(" ".join(words), width).split("\n"))


@given(st.from_regex(r"[a-z]{6,12}( [a-z]{1,12}){0,3}", fullmatch=True), st.integers(0, 99))
def test_a_slip_of_the_pen_touches_one_word_and_keeps_its_first_and_last_letter(text: str, seed: int) -> None:
    slip = misspelt(text, Random(seed))
    before, after = text.split(" "), slip.split(" ")
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) <= 1
    assert all((old[0], old[-1]) == (new[0], new[-1]) and abs(len(old) - len(new)) <= 1 for old, new in changed)


@given(st.integers(0, 999))
def test_a_choice_draws_one_of_its_branches(seed: int) -> None:
    drawn = expand("<a <b|c>|d> {name}", Random(seed), {"name": "x"})
    assert drawn in {"a b x", "a c x", "d x"}


@given(TEXT, CODES)
def test_a_sentence_starts_with_a_capital_inside_of_a_mark_too(text: str, codes: list[str]) -> None:
    assert unmark(sentence(mark(text, codes)))[0] == sentence(text)


@given(st.lists(st.text("xyz", min_size=1, max_size=3), min_size=1, max_size=5))
def test_an_enumeration_names_every_item(items: list[str]) -> None:
    assert enumerated(items).replace(" and ", ", ").split(", ") == items


@given(st.from_regex(r"[A-Z][a-z]{2,8} of (right|left) [a-z]{3,8}", fullmatch=True))
def test_no_paraphrase_loses_the_side(description: str) -> None:
    rewrites = [(re.compile(r"^(.+) of (right|left) (\w+)$"), r"\2 \3 \1")]
    side = "right" if " right " in description else "left"
    assert all(
        side in name for name in names_from(f"{description}, initial encounter for closed fracture", [], rewrites)
    )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_evidence_points_into_the_text_for_any_seed(seed: int) -> None:
    for note in demo_notes(notes=2, seed=seed):
        assert set(note.evidence) == set(note.codes) != set()
        for spans in note.evidence.values():
            assert all(0 <= span.start < span.end <= len(note.text) for span in spans)
            assert list(spans) == sorted(spans)
