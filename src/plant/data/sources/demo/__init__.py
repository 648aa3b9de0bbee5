"""The embedded demo corpus: discharge summaries written by us, with ICD-10-CM codes and gold evidence.

Patients are drawn first (who has what), then a chart, then its sections; words that speak for a code are marked while
they are written. The tables beside the code hold all wording; `tables/codes.tsv` is the list of codes by frequency.
"""

from collections.abc import Iterable

from plant.codes.codebook import CodeBook
from plant.codes.icd import codebook_for
from plant.data.sources.demo.notes import demo_notes

__all__ = ["demo_codebook", "demo_notes"]


def demo_codebook(codes: Iterable[str]) -> CodeBook:
    """Official descriptions, inclusion terms and parents of the codes."""
    return codebook_for(codes, "icd10cm")
