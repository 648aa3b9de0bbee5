"""What can be said about a source; what is left unsaid is found out from its files."""

from dataclasses import dataclass
from typing import Literal

LabelSet = Literal["full", "top50", "rare50"]


@dataclass(frozen=True)
class SourceOptions:
    """How to read a source; an empty string stands for the usual name, place or choice."""

    source: str = ""  # the published corpus that a folder holds: mimic3, mimic4, cantemist, codiesp
    id_column: str = ""  # '-' numbers the notes of a table
    text_column: str = ""
    codes_column: str = ""
    split_column: str = ""
    group_column: str = ""
    separator: str = ";"  # of the codes in one cell; JSON lists need none
    language: str = ""  # a translation: 'en' reads the column text_en or the folder text_files_en
    system: str = ""  # the coding system; which codes to take where a corpus has several, and how to spell them
    codebook: str = ""  # a file of codes with their descriptions
    label_set: LabelSet = "full"
    codes_file: str = ""  # one code per line: the codes of the label set
    splits: str = ""  # a folder of published id lists, or a table of ids and splits
    min_code_count: int | None = None  # codes of fewer notes are left out; None: as the corpus is published
    max_row: int = 50_000_000  # bytes of one row, line or text; more is a damaged file


def option_of(field_name: str) -> str:
    """The option of the command line that sets a field."""
    return "--" + field_name.replace("_", "-")
