"""Further codes that a recipe names: those of a table, or a whole packaged classification."""

from pathlib import Path

from plant.codes.codebook import CodeBook
from plant.codes.files import read_codebook
from plant.codes.icd import official_list

OFFICIAL = "official"  # in the place of a table: all codes of the classification that the notes are coded in


def further_book(named: str, *, system: str) -> CodeBook:
    """The code book of what `naming.codes` names."""
    return official_list(system) if named == OFFICIAL else read_codebook(Path(named), system=system)


def further_files(named: str) -> tuple[str, ...]:
    """The files that it is read from."""
    return () if named == OFFICIAL else (named,)
