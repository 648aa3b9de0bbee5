"""The embedded demo corpus: discharge summaries written by us, with ICD-10-CM codes and gold evidence.

Patients are drawn first (who has what), then a chart, then its sections; words that speak for a code are marked while
they are written. The tables beside the code hold all wording; `tables/codes.tsv` is the list of codes by frequency.
"""

from collections.abc import Iterable

from plant.codes.codebook import CodeBook
from plant.codes.icd import codebook_for
from plant.data.sources.demo.conditions import catalogue
from plant.data.sources.demo.notes import demo_notes

__all__ = ["demo_codebook", "demo_codes", "demo_notes"]


def demo_codes() -> tuple[str, ...]:
    """Every code that a note can have: of the conditions, and of those that arise from their company."""
    tables = catalogue()
    made = [rule.becomes or rule.adds for rule in tables.combinations]
    return tuple(dict.fromkeys([*(condition.code for condition in tables.conditions), *made]))


def demo_codebook(codes: Iterable[str]) -> CodeBook:
    """Official descriptions, inclusion terms and parents of the codes."""
    return codebook_for(codes, "icd10cm")
