"""Where notes come from: a source that can be read again and again, and the checks that every note passes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType

from plant.codes.codebook import CodeBook
from plant.errors import LONGEST_NAME, InputError, quoted
from plant.types import Note, Span

MOST_BLANKS_OF_AN_ID, MOST_WORDS_OF_A_SPLIT = 6, 3

Spans = Mapping[str, tuple[Span, ...]]
Skipped = Callable[[int, str], None]
"""Called as `skipped(number, why)` for a note that cannot be used; notes are counted from 1."""


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Source:
    """Notes as a stream of bounded memory; each call of `notes` reads them from the start.

    `total` is None where it is not known before reading; `facts` count what was left out and why.
    """

    name: str
    notes: Callable[[], Iterator[Note]]
    codebook: CodeBook | None = None
    total: int | None = None
    facts: Mapping[str, int] = field(default_factory=_nothing)


def gather_spans(marked: Iterable[tuple[str, Span]]) -> Spans:
    """Spans by code, each once, in the order of the text."""
    by_code: dict[str, set[Span]] = {}
    for code, span in marked:
        by_code.setdefault(code, set()).add(span)
    return MappingProxyType({code: tuple(sorted(spans)) for code, spans in by_code.items()})


def digest(text: str) -> bytes:
    """Twelve bytes in place of a text, to tell whether it was seen before."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def checked(
    notes: Iterable[Note | InputError], *, skipped: Skipped | None = None, seen: set[bytes] | None = None
) -> Iterator[Note]:
    """The same notes; an error at the first whose id is taken, whose text is empty, or whose evidence lies outside.

    An error in the place of a note says why it could not be read. With `skipped`, which is told of every such note, the
    others go on. `seen` keeps ids for the notes of other sources.
    """
    seen = set() if seen is None else seen
    for number, note in enumerate(notes, start=1):
        try:
            if isinstance(note, InputError):
                raise note
            _check(note, seen)
        except InputError as error:
            if skipped is None:
                raise
            skipped(number, str(error))
            continue
        yield note


def _check(note: Note, seen: set[bytes]) -> None:
    _check_names(note)
    _check_text(note)
    _check_evidence(note)
    _check_id(note.id, seen)


def _check_names(note: Note) -> None:
    for what, name in (
        ("id", note.id),
        ("split", note.split),
        ("group", note.group),
        *(("code", c) for c in note.codes),
    ):
        if not _encodable(name):
            raise InputError(f"the {what} of a note has half a surrogate pair: write it as UTF-8")
    if len(note.split) > LONGEST_NAME or len(note.split.split()) > MOST_WORDS_OF_A_SPLIT:  # reports and cards name it
        raise InputError(
            f"the split of a note is a text of {len(note.split):,} characters: is this the column of splits?"
        )


def _check_id(identifier: str, seen: set[bytes]) -> None:
    if not identifier:
        raise InputError("a note has an empty id: give every note an id of its own")
    if identifier.count(" ") > MOST_BLANKS_OF_AN_ID:  # every prediction would show it
        raise InputError(f"the id of a note has {len(identifier.split()):,} words: is this the column of ids?")
    mark = digest(identifier)
    if mark in seen:
        raise InputError(f"two notes have the id {quoted(identifier)}: ids must differ in the whole source")
    seen.add(mark)


def _check_text(note: Note) -> None:
    if not note.text or note.text.isspace():
        raise InputError(f"note {quoted(note.id)} has an empty text: remove the note or mend its text")
    if not _encodable(note.text):
        raise InputError(f"the text of note {quoted(note.id)} has half a surrogate pair: write it as UTF-8")


def _encodable(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _check_evidence(note: Note) -> None:
    about = f"note {quoted(note.id)}"
    for code, spans in note.evidence.items():
        named = f"code {quoted(code)}"
        if code not in note.codes:
            raise InputError(f"{about} has evidence for {named}, which is not among its codes")
        for span in spans:
            if not 0 <= span.start < span.end <= len(note.text):
                where = f"{span.start} to {span.end} of {len(note.text)} characters"
                raise InputError(f"evidence of {named} lies outside of the text of {about} ({where})")
