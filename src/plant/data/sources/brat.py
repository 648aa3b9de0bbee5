"""Brat's standoff annotations: marked spans and the codes that annotators noted for them."""

import re
from collections.abc import Iterator
from pathlib import Path

from plant.data.sources.files import read_text
from plant.errors import InputError
from plant.types import Span

SPANS = re.compile(r"\d+ \d+(;\d+ \d+)*", re.ASCII)


def read_marks(path: Path) -> Iterator[tuple[str, Span]]:
    """The code and span of each mark; a discontinuous mark gives one span per fragment, one without a code none."""
    spans: dict[str, list[Span]] = {}
    noted: list[tuple[str, str]] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        name, middle, last = (*line.split("\t", 2), "", "")[:3]
        if name.startswith("T"):
            spans[name] = parse_spans(middle.partition(" ")[2], where=f"{path}, line {number}")
        elif name.startswith("#"):
            noted.append((middle.rpartition(" ")[2], last.strip()))
    for mark, code in noted:
        for span in spans.get(mark, []) if code else []:
            yield code, span


def parse_spans(text: str, *, where: str) -> list[Span]:
    """Spans written as `12 30` or, in fragments, as `12 19;25 30`."""
    if not SPANS.fullmatch(text.strip()):
        raise InputError(f"{where}: a span is not written as 'start end' or 'start end;start end'")
    pairs = (fragment.split() for fragment in text.strip().split(";"))
    return [Span(int(start), int(end)) for start, end in pairs]
