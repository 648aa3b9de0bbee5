"""Whatever can be written into a table comes out of it again, in whatever blocks it is read."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from plant.data.sources import checked, open_source
from plant.data.sources.delimited import Dialect, RowError, read_rows
from plant.data.sources.mimic import NotePart, gathered
from plant.types import Note, Span
from tests.source_samples import as_cells, as_record, delimited, json_lines

CELLS = st.text(alphabet=st.sampled_from('ab",;\t\n\r é漢😀'), max_size=8)
ROWS = st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5)
WORDS = st.text(min_size=1, max_size=30).filter(lambda text: bool(text.strip()) and text.isprintable())
CODES = st.lists(st.from_regex(r"[A-Z][0-9]{2}(\.[0-9])?", fullmatch=True), max_size=4, unique=True).map(tuple)


def csv_text(rows: list[list[str]], *, end: str, quoting: int, delimiter: str) -> str:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator=end, quoting=quoting, delimiter=delimiter).writerows(rows)  # type: ignore[arg-type]
    return written.getvalue()


def by_csv_module(text: str, delimiter: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    return [row for row in rows if row not in ([], [""])]


@given(
    rows=ROWS,
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    delimiter=st.sampled_from([",", "\t", ";"]),
    block=st.sampled_from([1, 2, 3, 7, 1 << 20]),
)
def test_rows_are_those_of_the_csv_module(
    rows: list[list[str]], end: str, quoting: int, delimiter: str, block: int
) -> None:
    text = csv_text(rows, end=end, quoting=quoting, delimiter=delimiter)
    found = read_rows(io.BytesIO(text.encode()), Dialect(delimiter, block=block))
    assert [row for _, row in found] == by_csv_module(text, delimiter)


@given(text=st.text(alphabet=st.sampled_from('ab",\n é'), max_size=30), block=st.sampled_from([1, 2, 5, 1 << 20]))
def test_what_the_csv_module_refuses_is_refused(text: str, block: int) -> None:
    try:
        expected: list[list[str]] | None = by_csv_module(text, ",")
    except csv.Error:
        expected = None
    try:
        found: list[list[str]] | None = [row for _, row in read_rows(io.BytesIO(text.encode()), Dialect(block=block))]
    except RowError:
        found = None
    assert found == expected


@given(rows=ROWS, block=st.sampled_from([1, 3, 1 << 20]))
def test_a_row_begins_at_the_line_that_it_is_said_to_begin_at(rows: list[list[str]], block: int) -> None:
    text = csv_text(rows, end="\n", quoting=csv.QUOTE_ALL, delimiter=",")
    starts: list[int] = []
    line = 1
    for row in rows:
        starts.append(line)
        line += sum(cell.count("\n") for cell in row) + 1
    kept = [start for start, row in zip(starts, rows, strict=True) if row != [""]]
    assert [line for line, _ in read_rows(io.BytesIO(text.encode()), Dialect(block=block))] == kept


@st.composite
def notes(draw: st.DrawFn) -> list[Note]:
    """Notes that differ in id, with evidence inside of their texts."""
    made: list[Note] = []
    for number in range(draw(st.integers(1, 4))):
        text, codes = draw(WORDS), draw(CODES)
        end = draw(st.integers(1, len(text)))
        evidence = {code: (Span(draw(st.integers(0, end - 1)), end),) for code in codes[:1]}
        made.append(Note(f"n{number}", text, codes, draw(st.sampled_from(["train", "dev"])), "p", evidence))
    return made


@given(notes())
def test_notes_come_back_from_json_lines(made: list[Note]) -> None:
    assert through_file("notes.jsonl", json_lines([as_record(note) for note in made])) == made


@given(notes())
def test_notes_come_back_from_csv(made: list[Note]) -> None:
    assert through_file("notes.csv", delimited([as_cells(note) for note in made])) == made


def through_file(name: str, content: bytes) -> list[Note]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return list(checked(open_source(str(path)).notes()))


@given(st.lists(st.sampled_from("abcd"), max_size=12))
def test_gathering_gives_each_admission_once_with_all_its_parts_in_order(admissions: list[str]) -> None:
    parts = [NotePart(admission, "p", (-place,), str(place)) for place, admission in enumerate(admissions)]
    expected = {admission: admissions.count(admission) for admission in set(admissions) - {"d"}}
    found = list(gathered(iter(parts), expected))
    assert sorted(part.text for group in found for part in group) == sorted(p.text for p in parts if p.admission != "d")
    assert [group[0].admission for group in found] == list(last_places(admissions))
    assert all([part.order for part in group] == sorted(part.order for part in group) for group in found)


def last_places(admissions: list[str]) -> Iterator[str]:
    """Admissions in the order in which their last parts are read."""
    for place, admission in enumerate(admissions):
        if admission != "d" and admission not in admissions[place + 1 :]:
            yield admission
