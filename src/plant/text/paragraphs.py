"""Lines of a note as a page sets them; those that a program broke at a fixed width are paragraphs again."""

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

LONGEST = 4000  # characters that are laid out as one: a browser takes seconds for a line of a million
MOST = 20_000  # lines; a text with more is set in parts, lest its lines take more room than itself
NARROWEST, WIDEST = 40, 120  # characters at which programs break lines
FEWEST = 2  # breaks, and
RAREST = 20  # one of so many lines, before all breaks are believed to be a program's
FIRST_WORD = re.compile(r"\S+")
Kind = Literal["", "heading", "flow", "endless"]


@dataclass(frozen=True)
class Line:
    """Characters that are laid out as one: a line, a heading, lines that flow together, a part of an endless line."""

    start: int
    end: int
    kind: Kind = ""


def set_lines(text: str, headings: Container[int]) -> list[Line]:
    """The lines of a text, without their breaks; `headings` are where lines start that are one.

    A break belongs to a paragraph if the first word behind it would not have fitted before it.

    >>> [(line.start, line.end) for line in set_lines("one\\ntwo", ())]
    [(0, 3), (4, 7)]
    """
    if text.count("\n") > MOST:
        return list(_parts(0, len(text), ""))
    lines = list(_lines(text, headings))
    width = max(line.end - line.start for line in lines)
    if not NARROWEST <= width <= WIDEST:
        return lines
    flows = [place > 0 and _flows(text, lines[place - 1], line, width) for place, line in enumerate(lines)]
    return _joined(lines, flows) if sum(flows) >= max(FEWEST, len(lines) / RAREST) else lines


def _lines(text: str, headings: Container[int]) -> Iterator[Line]:
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        if len(line) <= LONGEST:
            yield Line(start, end, "heading" if start in headings else "")
        else:
            yield from _parts(start, end, "endless")
        start = end + 1


def _parts(start: int, end: int, kind: Kind) -> Iterator[Line]:
    return (Line(at, min(end, at + LONGEST), kind) for at in range(start, end, LONGEST))


def _flows(text: str, line: Line, following: Line, width: int) -> bool:
    """Whether a line of a paragraph goes on in the following one."""
    word = FIRST_WORD.match(text, following.start, following.end)
    if word is None or line.end == line.start or "heading" in (line.kind, following.kind):
        return False
    return line.end - line.start + 1 + len(word[0]) > width


def _joined(lines: Sequence[Line], flows: Sequence[bool]) -> list[Line]:
    """Lines that flow together as one, their breaks within it."""
    joined: list[Line] = []
    for line, flowing in zip(lines, flows, strict=True):
        if flowing:
            joined[-1] = Line(joined[-1].start, line.end, "flow")
        else:
            joined.append(line)
    return joined
