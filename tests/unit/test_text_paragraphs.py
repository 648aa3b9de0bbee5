"""Lines of a note as they are set: broken ones flow together again, nothing of the text is lost."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.text.paragraphs import LONGEST, MOST, set_lines

STORY = "The patient was admitted with acute kidney injury and a dry cough that had lasted for some weeks. " * 6
BROKEN = "\n".join(textwrap.wrap(STORY, 70))


def shown(text: str, headings: tuple[int, ...] = ()) -> list[tuple[str, str]]:
    return [(text[line.start : line.end], line.kind) for line in set_lines(text, headings)]


def test_lines_that_people_broke_stay() -> None:
    assert shown("one\n\ntwo") == [("one", ""), ("", ""), ("two", "")]
    assert shown("") == [("", "")]


def test_lines_that_a_program_broke_flow_together() -> None:
    assert shown(BROKEN) == [(BROKEN, "flow")]
    assert shown(f"{BROKEN}\n\n{BROKEN}") == [(BROKEN, "flow"), ("", ""), (BROKEN, "flow")]


def test_a_heading_flows_into_nothing() -> None:
    text = f"{BROKEN}\nCourse\n{BROKEN}"
    start = text.index("Course")
    assert shown(text, (start,)) == [(BROKEN, "flow"), ("Course", "heading"), (BROKEN, "flow")]


@pytest.mark.parametrize("width", [30, 140])
def test_widths_at_which_no_program_breaks_change_nothing(width: int) -> None:
    text = "\n".join(textwrap.wrap(STORY, width))
    assert [found for found, _ in shown(text)] == text.split("\n")


def test_an_endless_line_is_cut_into_parts() -> None:
    assert [(len(found), kind) for found, kind in shown("x" * (2 * LONGEST + 1))] == [
        (LONGEST, "endless"),
        (LONGEST, "endless"),
        (1, "endless"),
    ]


def test_a_text_of_breaks_takes_no_more_room_than_its_parts() -> None:
    assert len(set_lines("\n" * (50 * MOST), ())) == 50 * MOST // LONGEST


@given(st.text(alphabet=st.sampled_from("ab \n\r🫁"), max_size=400))
def test_nothing_of_a_text_is_lost_but_breaks_between_lines(text: str) -> None:
    lines = set_lines(text, ())
    borders = [0, *(place for line in lines for place in (line.start, line.end)), len(text)]
    assert borders == sorted(borders)
    between = [text[end:start] for end, start in zip(borders[::2], borders[1::2], strict=True)]
    assert set(between) <= {"", "\n"}
