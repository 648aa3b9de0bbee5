"""MIMIC-III: discharge summaries of NOTEEVENTS with their addenda, ICD-9 codes of diagnoses and procedures."""

from collections.abc import Iterator
from pathlib import Path

from plant.data.notes import Source
from plant.data.sources.mimic import NotePart, Release, find_table, number, open_mimic, table_rows
from plant.data.sources.options import SourceOptions
from plant.types import Progress

COLUMNS = (
    "category",
    "row_id",
    "subject_id",
    "hadm_id",
    "chartdate",
    "charttime",
    "storetime",
    "description",
    "iserror",
    "text",
)


def open_mimic3(folder: Path, options: SourceOptions, progress: Progress) -> Source:
    """One note per admission: the report, then its addenda in the order of time."""
    return open_mimic(MIMIC3, folder, options, progress)


def is_mimic3(folder: Path) -> bool:
    """Whether the folder holds the notes of MIMIC-III."""
    return find_table(folder, "noteevents", deepest=3) is not None


def discharge_parts(path: Path, limit: int) -> Iterator[NotePart]:
    """The rows of NOTEEVENTS that are discharge summaries or addenda to them."""
    for _, (category, row, *rest) in table_rows(path, COLUMNS, limit=limit):
        if category.strip().lower() == "discharge summary":
            yield _part(number(row), *rest)


def _part(
    row: int, patient: str, admission: str, date: str, time: str, stored: str, description: str, error: str, text: str
) -> NotePart:
    is_addendum = int(description.strip().lower() == "addendum")
    return NotePart(
        admission=_whole(admission),
        patient=_whole(patient),
        order=(is_addendum, date, time, stored, row),
        text=text,
        fault=_fault(admission, error, text),
    )


def _fault(admission: str, error: str, text: str) -> str:
    if _whole(error) == "1":
        return "summaries marked as errors"
    if not admission.strip():
        return "summaries without an admission"
    return "" if text.strip() else "summaries without text"


def _whole(number: str) -> str:
    """A number without the '.0' that some tools write where a column has gaps."""
    return number.strip().removesuffix(".0")


MIMIC3 = Release(
    name="mimic3",
    notes="noteevents",
    parts=discharge_parts,
    code_column="icd9_code",
    version_column="",
    systems=("icd9", "icd9-diagnosis", "icd9-procedure"),
    minimum=1,
)
