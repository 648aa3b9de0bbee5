"""Text without codes that another split has with codes: read twice, a language model would have seen the answers."""

from collections.abc import Callable, Iterator
from itertools import chain

from plant.data.notes import digest
from plant.types import Note

REPEATS = "texts without codes that repeat a coded note"

Notes = Callable[[], Iterator[Note]]


def without_repeats(coded: Notes, bare: Notes) -> tuple[Notes, int]:
    """The coded notes, then the bare ones that equal none of them in id or text; and how many bare ones do.

    The background sets of shared tasks hold notes of the other sets, some of them under other names.
    """
    if next(coded(), None) is None or next(bare(), None) is None:
        return lambda: chain(coded(), bare()), 0
    taken = {mark for note in coded() for mark in _marks(note)}

    def notes() -> Iterator[Note]:
        yield from coded()
        for note in bare():
            if taken.isdisjoint(_marks(note)):
                yield note

    return notes, sum(not taken.isdisjoint(_marks(note)) for note in bare())


def _marks(note: Note) -> tuple[bytes, bytes]:
    return digest(f"id {note.id}"), digest(f"text {' '.join(note.text.split())}")
