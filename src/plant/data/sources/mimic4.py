"""MIMIC-IV: discharge summaries of the note module, ICD-9 or ICD-10 codes of the hospital module."""

from collections.abc import Iterator
from pathlib import Path

from plant.data.notes import Source
from plant.data.sources.mimic import NotePart, Release, find_table, number, open_mimic, table_rows
from plant.data.sources.options import SourceOptions
from plant.types import Progress

COLUMNS = ("note_id", "subject_id", "hadm_id", "note_seq", "charttime", "text")


def open_mimic4(folder: Path, options: SourceOptions, progress: Progress) -> Source:
    """One note per admission; ICD-10 unless the options ask for ICD-9, codes of at least ten notes."""
    return open_mimic(MIMIC4, folder, options, progress)


def is_mimic4(folder: Path) -> bool:
    """Whether the folder holds discharge summaries and diagnoses of MIMIC-IV."""
    return all(find_table(folder, stem, deepest=3) for stem in ("discharge", "diagnoses_icd"))


def discharge_parts(path: Path, limit: int) -> Iterator[NotePart]:
    """The rows of the discharge table, in which an admission may have several notes."""
    for _, (note, patient, admission, sequence, time, text) in table_rows(path, COLUMNS, limit=limit):
        yield NotePart(
            admission=admission.strip(),
            patient=patient.strip(),
            order=(number(sequence), time, note),
            text=text,
            fault=_fault(admission, text),
        )


def _fault(admission: str, text: str) -> str:
    if not admission.strip():
        return "summaries without an admission"
    return "" if text.strip() else "summaries without text"


MIMIC4 = Release(
    name="mimic4",
    notes="discharge",
    parts=discharge_parts,
    code_column="icd_code",
    version_column="icd_version",
    systems=("icd10", "icd10cm", "icd10pcs", "icd9", "icd9-diagnosis", "icd9-procedure"),
    minimum=10,  # as in the replication study of Edin et al. (2023)
)
