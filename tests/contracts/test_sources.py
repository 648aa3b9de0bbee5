"""What every format of notes keeps to, found by walking the registries: a new one cannot be forgotten."""

import random
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pytest

from plant.data.builder import build_corpus
from plant.data.sources import EMBEDDED, Source, SourceOptions, checked, open_source
from plant.data.sources.bare import read_texts
from plant.data.sources.records import TABLES
from plant.data.store import save_corpus
from plant.errors import InputError
from plant.recipe.schema import Prepare
from plant.types import Note, Span
from tests.source_samples import CONTENTS, FOLDER, SAMPLES, formats, sample_of

Item = TypeVar("Item")

CANARY = "Margarethe"
EMBEDDED_NOTES = 300  # of a corpus that takes long to read, this many must do
WRITTEN = [name for name in formats() if name not in EMBEDDED]
SOURCES = pytest.mark.parametrize("name", formats())
FILES = pytest.mark.parametrize("name", WRITTEN)

TEXTS = (
    f'{CANARY} said "no pain", twice;\nher chest X-ray\twas clear.\n\n',
    f"  {CANARY}: naïve, señora, 漢字, 😀\r\nEnd of note",
    f"{CANARY}",
    f"[ {CANARY} , 'in brackets' \\ and | pipes ]",
)
CODES = ("V45.81", "V10.05", "V58.61")
"""Spelled alike in ICD-9 and ICD-10, so that every published corpus may hold them."""


def notes() -> list[Note]:
    """Notes that every format can hold, but for the fields that it lacks."""
    return [note(number, text) for number, text in enumerate([*TEXTS, *TEXTS], start=101)]


def note(number: int, text: str) -> Note:
    """Two neighbours are one patient, who is in one split."""
    patient, codes = number // 2, CODES[number % 3 :]
    split, marked = ("train", "test")[patient % 2], (Span(0, 1), Span(len(text) // 2, len(text)))
    return Note(str(number), f"{number}: {text}", codes, split, str(patient), {codes[0]: marked})


def long_notes(count: int, *, length: int) -> list[Note]:
    text = CANARY * (length // len(CANARY))
    return [replace(note(number, text), evidence={}) for number in range(1000, 1000 + count)]


def write(name: str, folder: Path, written: Sequence[Note]) -> str:
    folder.mkdir(exist_ok=True)
    return sample_of(name).write(folder, written)


def opened(name: str, folder: Path, written: Sequence[Note]) -> Source:
    return open_source(write(name, folder, written), options=sample_of(name).options)


def some(name: str, read: Iterable[Item]) -> Iterator[Item]:
    """All notes of a small source, the first of a large one."""
    return islice(read, EMBEDDED_NOTES if name in EMBEDDED else None)


def held(name: str, written: Sequence[Note]) -> list[Note]:
    """The notes as the format can hold them."""
    empty = {field: {} if field == "evidence" else "" for field in sample_of(name).lacks}
    return [replace(note, **empty) for note in written]  # type: ignore[arg-type]


def by_id(read: Iterable[Note]) -> list[Note]:
    """Notes in one order, as folders and lists have orders of their own."""
    return sorted(read, key=lambda note: note.id)


def problem(name: str, source: str, **options: int) -> str:
    """What reading ends in: one line without a word of a note, or nothing if it goes well."""
    told = message_of(source, replace(sample_of(name).options, **options))  # type: ignore[arg-type]
    assert "\n" not in told
    assert CANARY not in told
    return told


def message_of(source: str, options: SourceOptions) -> str:
    try:
        list(checked(open_source(source, options=options).notes()))
    except InputError as error:
        return str(error)
    return ""


@SOURCES
def test_there_is_a_sample_of_every_format(name: str) -> None:
    kind = name.removeprefix(FOLDER).removesuffix(".gz")
    assert name in SAMPLES or kind in CONTENTS, f"tests/source_samples.py cannot write {name!r}: add how"


def test_there_is_no_sample_of_a_format_that_is_gone() -> None:
    assert set(SAMPLES) <= set(formats())
    assert set(CONTENTS) == set(TABLES)


@FILES
def test_notes_come_back_as_they_were_written(tmp_path: Path, name: str) -> None:
    assert by_id(checked(opened(name, tmp_path, notes()).notes())) == held(name, notes())


@SOURCES
def test_ids_differ_and_evidence_lies_in_the_text_for_codes_of_the_note(tmp_path: Path, name: str) -> None:
    read = list(some(name, opened(name, tmp_path, notes()).notes()))
    marks = [(note, code, span) for note in read for code, spans in note.evidence.items() for span in spans]
    assert len({note.id for note in read}) == len(read) > 0
    assert all(code in note.codes and 0 <= span.start < span.end <= len(note.text) for note, code, span in marks)
    assert bool(marks) == ("evidence" not in sample_of(name).lacks)


@SOURCES
def test_two_readings_at_once_give_the_same(tmp_path: Path, name: str) -> None:
    source = opened(name, tmp_path, notes())
    assert all(first == second for first, second in some(name, zip(source.notes(), source.notes(), strict=True)))


@pytest.mark.usefixtures("unchecked")
@SOURCES
def test_notes_are_streamed(tmp_path: Path, name: str) -> None:
    source = write(name, tmp_path, long_notes(1300, length=15_000))
    tracemalloc.start()
    read = open_source(source, options=sample_of(name).options).notes()
    characters = sum(len(note.text) for note in some(name, read))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < characters / 2


@pytest.mark.usefixtures("unchecked")
@SOURCES
def test_the_total_is_the_number_of_notes_where_it_is_known(tmp_path: Path, name: str) -> None:
    source = opened(name, tmp_path, notes())
    assert source.total == (sum(1 for _ in source.notes()) if sample_of(name).counted else None)


@FILES
def test_the_code_book_names_the_codes_where_there_is_one(tmp_path: Path, name: str) -> None:
    book = opened(name, tmp_path, notes()).codebook
    assert book is None or set(book.codes) >= set(CODES)


@FILES
def test_the_same_notes_are_the_same_corpus_in_every_format(tmp_path: Path, name: str) -> None:
    common = partial(replace, group="", evidence={})  # what some format has no place for
    source = opened(name, tmp_path / "notes", notes())
    expected = corpus_digest(map(common, notes()), tmp_path / "expected")
    assert corpus_digest(map(common, by_id(source.notes())), tmp_path / "corpus") == expected


@FILES
def test_a_corpus_holds_all_that_the_format_can_hold(tmp_path: Path, name: str) -> None:
    source = opened(name, tmp_path / "notes", notes())
    expected = corpus_digest(held(name, notes()), tmp_path / "expected")
    assert corpus_digest(by_id(source.notes()), tmp_path / "corpus") == expected


def corpus_digest(read: Iterable[Note], out: Path) -> str:
    return save_corpus(build_corpus(read, None, Prepare(keep_text=True)), out, recipe={}).digest


@FILES
def test_progress_is_told_note_by_note_with_the_total(tmp_path: Path, name: str) -> None:
    told: list[tuple[str, int, int | None]] = []
    source = opened(name, tmp_path, notes())
    build_corpus(source.notes(), None, Prepare(), total=source.total, progress=lambda *step: told.append(step))
    assert told == [("reading notes", number, source.total) for number in range(1, len(notes()) + 1)]


@FILES
def test_what_is_told_while_a_source_is_opened_only_rises(tmp_path: Path, name: str) -> None:
    told: list[tuple[str, int, int | None]] = []
    source = write(name, tmp_path, long_notes(2048, length=20))
    open_source(source, options=sample_of(name).options, progress=lambda *step: told.append(step))
    passes = {what: [done for told_what, done, _ in told if told_what == what] for what, _, _ in told}
    assert all(done == sorted(set(done)) for done in passes.values())


@FILES
def test_a_row_or_text_over_the_limit_is_refused(tmp_path: Path, name: str) -> None:
    source = write(name, tmp_path, [*notes(), *long_notes(1, length=5000)])
    assert "longer than 2,000 bytes" in problem(name, source, max_row=2000)
    assert problem(name, source, max_row=20_000) == ""


@FILES
def test_a_file_of_anything_else_is_told_by_its_name(tmp_path: Path, name: str) -> None:
    source = write(name, tmp_path, notes())
    for file, content in files_of(tmp_path):
        file.write_bytes(f"{CANARY} ".encode() + b"\xff\n" * 9)
        assert file.name in problem(name, source), f"{file} is read as if it were sound"
        file.write_bytes(content)


@FILES
def test_a_missing_or_empty_file_is_told_or_leaves_the_texts_of_other_notes_alone(tmp_path: Path, name: str) -> None:
    source, texts = write(name, tmp_path, notes()), {note.id: note.text for note in notes()}
    for file, content in files_of(tmp_path):
        for damage in (partial(file.write_bytes, b""), file.unlink):
            damage()
            read = [] if problem(name, source) else open_source(source, options=sample_of(name).options).notes()
            assert {note.id: note.text for note in read}.items() <= texts.items()
        file.write_bytes(content)
    assert problem(name, source) == ""


@FILES
def test_damage_anywhere_ends_in_one_line_without_a_word_of_a_note(tmp_path: Path, name: str) -> None:
    source = write(name, tmp_path, notes())
    chance = random.Random(name)
    files = files_of(tmp_path)
    for _ in range(60):
        file, content = chance.choice(files)
        file.write_bytes(damaged(content, chance))
        problem(name, source)
        file.write_bytes(content)


@FILES
def test_a_line_of_names_that_is_missing_does_not_betray_a_note(tmp_path: Path, name: str) -> None:
    source = write(name, tmp_path, notes())
    for file, content in files_of(tmp_path):
        file.write_bytes(content.partition(b"\n")[2])
        problem(name, source)
        file.write_bytes(content)


def files_of(folder: Path) -> list[tuple[Path, bytes]]:
    return [(file, file.read_bytes()) for file in sorted(folder.rglob("*")) if file.is_file()]


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The content cut off, with another byte somewhere, or with a piece left out."""
    place = chance.randrange(max(1, len(content)))
    other = bytes([chance.choice(b'"\n\t,;{[\x00\xff0')])
    rest = chance.choice([b"", other + content[place + 1 :], content[place + chance.randrange(1, 40) :]])
    return content[:place] + rest


@pytest.mark.parametrize("kind", TABLES)
def test_texts_to_be_coded_are_read_from_every_kind_of_table_without_their_codes(tmp_path: Path, kind: str) -> None:
    expected = [Note(note.id, note.text, group=note.group) for note in notes()]
    assert list(read_texts(write(kind, tmp_path, notes()))) == expected
