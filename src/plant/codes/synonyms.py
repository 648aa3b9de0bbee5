"""What else a code is called: synonyms of a user's table, and titles without the words that no note has."""

import re
from dataclasses import replace
from pathlib import Path

from plant.codes.codebook import CodeBook
from plant.codes.files import read_codebook

PARENTHESES = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
VAGUE = ("NOS", "NEC", "SAI", "NCOC", "unspecified", "not otherwise specified", "sin otra indicación")
UNSPECIFIED = re.compile(rf"(?:,\s*)?\b(?:{'|'.join(VAGUE)})\b", re.IGNORECASE)


def read_synonyms(path: Path | str, book: CodeBook) -> CodeBook:
    """The book with the names of a table, a code per line: `code`, `synonyms` (separated by |), or `description`."""
    return with_synonyms(book, read_codebook(path))


def with_synonyms(book: CodeBook, further: CodeBook) -> CodeBook:
    """The book with all names that another has for its codes, after its own."""
    more = {code: further.names(code) for code in further.codes}
    synonyms = dict(book.synonyms)
    for code, names in more.items():
        synonyms[code] = tuple(dict.fromkeys((*synonyms.get(code, ()), *names)))
    return replace(book, synonyms=synonyms)


def spoken(name: str) -> tuple[str, ...]:
    """A name, and what a note would say for it: without parentheses, "NOS" and the like."""
    shorter = " ".join(UNSPECIFIED.sub("", PARENTHESES.sub("", name)).split()).strip(" ,;-")
    return (name, shorter) if shorter and shorter != name else (name,)
