"""Where notes come from: a source that can be read again and again, and the checks that every note passes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType

from plant.codes.codebook import CodeBook
from plant.errors import InputError, quotable
from plant.types import Note, Span

Spans = Mapping[str, tuple[Span, ...]]


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


def checked(notes: Iterable[Note]) -> Iterator[Note]:
    """The same notes; an error at the first whose id is taken, whose text is empty, or whose evidence lies outside."""
    seen: set[bytes] = set()
    for note in notes:
        _check_id(note.id, seen)
        _check_text(note)
        _check_evidence(note)
        yield note


def _check_id(identifier: str, seen: set[bytes]) -> None:
    if not identifier:
        raise InputError("a note has an empty id: give every note an id of its own")
    mark = digest(identifier)
    if mark in seen:
        raise InputError(f"two notes have the id {quotable(identifier)!r}: ids must differ in the whole source")
    seen.add(mark)


def _check_text(note: Note) -> None:
    if not note.text or note.text.isspace():
        raise InputError(f"note {quotable(note.id)!r} has an empty text: remove the note or mend its text")
    if not _encodable(note.text):
        raise InputError(f"the text of note {quotable(note.id)!r} has half a surrogate pair: write it as UTF-8")


def _encodable(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _check_evidence(note: Note) -> None:
    about = f"note {quotable(note.id)!r}"
    for code, spans in note.evidence.items():
        named = f"code {quotable(code)!r}"
        if code not in note.codes:
            raise InputError(f"{about} has evidence for {named}, which is not among its codes")
        for span in spans:
            if not 0 <= span.start < span.end <= len(note.text):
                where = f"{span.start} to {span.end} of {len(note.text)} characters"
                raise InputError(f"evidence of {named} lies outside of the text of {about} ({where})")
