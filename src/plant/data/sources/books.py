"""The code book of a source: a file that the user names, the table beside the notes, or the official names."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from plant.codes.codebook import CodeBook
from plant.codes.files import read_codebook
from plant.codes.icd import codebook_for, guess_system, normalise
from plant.codes.systems import normal_form
from plant.data.sources.options import SourceOptions
from plant.errors import CodeError, InputError

TABLE = "labels.tsv"
SEPARATORS = ("|", ",", ";", "\t", "\n", "/", " ", "+", "~", "#", "&")


def given_book(options: SourceOptions, *, folder: Path | None = None, system: str = "") -> CodeBook | None:
    """The code book of a file, if the options name one or the folder of the notes has one."""
    path = _path(options, folder)
    if path is None:
        return None
    system = options.system or system
    book = read_codebook(path, system=system or "other")
    return book if system else replace(book, system=guess_system(book.codes))


def official_book(codes: Iterable[str], system: str) -> CodeBook:
    """The official names of the codes; a code that its system does not know has none."""
    codes = sorted(codes)
    book = codebook_for([code for code in codes if normal_form(code, system) == code], system)
    return book.with_codes(codes)


def named_book(book: CodeBook | None, codes: Sequence[str]) -> CodeBook:
    """A code book of at least these codes; those that it does not describe get their official names."""
    if book is None:
        return official_book(codes, guess_system(codes))
    missing = [code for code in codes if not book.description(code)]
    if not missing:
        return book.with_codes(codes)
    official = official_book(missing, book.system)
    return replace(
        book.with_codes(codes),
        descriptions={**official.descriptions, **book.descriptions},
        synonyms={**official.synonyms, **book.synonyms},
        parents={**official.parents, **book.parents},
    )


def check_separator(codes: Collection[str]) -> None:
    """Refuse cells of several codes that were taken for one: apart they are codes of a known system, as one of none."""
    if guess_system(codes) != "other":
        return
    for separator in SEPARATORS:
        joined = [code for code in codes if separator in code]
        apart = {part for code in codes for part in code.split(separator) if part.strip()}
        if 2 * len(joined) > len(codes) and guess_system(apart) != "other":
            raise InputError(
                f"{len(joined):,} of {len(codes):,} codes hold {separator!r} and are codes of {guess_system(apart)} "
                f"when parted there: name {separator!r} as the separator of codes"
            )


def spelled(code: str, system: str) -> str:
    """A code as its system spells it, or as it stands if it is none of its system."""
    try:
        return normalise(code, system)
    except CodeError:
        return code


def _path(options: SourceOptions, folder: Path | None) -> Path | None:
    if options.codebook:
        return Path(options.codebook)
    usual = folder / TABLE if folder else None
    return usual if usual and usual.is_file() else None
