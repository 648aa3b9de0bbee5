"""A comparison as text: TSV, Markdown, LaTeX."""

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

from plant.evaluate.report.markdown import table
from plant.evaluate.significance.compare import ALPHA, Cell, Comparison
from plant.store.artifact import atomic_file

LATEX_SPECIAL = str.maketrans({character: f"\\{character}" for character in "&%$#_{}"})


def write_comparison(comparison: Comparison, stem: Path | str) -> tuple[Path, ...]:
    """Write `stem.tsv` (bare numbers), `stem.md` and `stem.tex`."""
    stem = Path(stem)
    for suffix, text_of in WRITERS.items():
        with atomic_file(stem.with_name(stem.name + suffix)) as temporary:
            temporary.write_text(text_of(comparison), encoding="utf-8")
    return tuple(stem.with_name(stem.name + suffix) for suffix in WRITERS)


def header_of(comparison: Comparison) -> tuple[str, ...]:
    """The titles of the columns."""
    return ("system", "runs", *comparison.measures)


def marked_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Cells such as `0.7123 ±0.0040 *`; the star marks a difference to the first row that is unlikely to be chance."""
    for name, row in comparison.rows.items():
        cells = [row[measure] for measure in comparison.measures]
        yield (name, str(cells[0].spread.runs), *map(_marked, cells))


def note_of(comparison: Comparison) -> str:
    """What the marks mean."""
    return (
        f"* differs from {comparison.reference}, p < {ALPHA} (approximate randomisation over {comparison.documents:,} "
        f"documents, {comparison.rounds:,} rounds, Holm-corrected over the systems of each measure); "
        "± standard deviation over seeds."
    )


def tsv_of(comparison: Comparison) -> str:
    """One line per system and measure, with all digits."""
    lines = ["system\tmeasure\tmean\tdeviation\truns\tp"]
    for name, row in comparison.rows.items():
        for measure in comparison.measures:
            cell = row[measure]
            values = (cell.spread.mean, cell.spread.deviation, cell.spread.runs, cell.p)
            lines.append("\t".join((name, measure, *("" if value is None else repr(value) for value in values))))
    return "\n".join(lines) + "\n"


def markdown_of(comparison: Comparison) -> str:
    """The table with marks, and what they mean."""
    return f"{table(header_of(comparison), marked_rows(comparison))}\n\n\\{note_of(comparison)}\n"


def latex_of(comparison: Comparison) -> str:
    """A `tabular` of the booktabs package."""
    titles = " & ".join(title.translate(LATEX_SPECIAL) for title in header_of(comparison))
    body = "\n".join(" & ".join(map(_latex, row)) + r" \\" for row in marked_rows(comparison))
    columns = "l" + "r" * (len(comparison.measures) + 1)
    lines = (rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rf"{titles} \\", r"\midrule", body, r"\bottomrule",
             r"\end{tabular}", f"% {note_of(comparison)}")  # fmt: skip
    return "\n".join(lines) + "\n"


def _marked(cell: Cell) -> str:
    deviation = "" if cell.spread.deviation is None else f" ±{cell.spread.deviation:.4f}"
    return f"{cell.spread.mean:.4f}{deviation}{' *' if cell.significant else ''}"


def _latex(cell: str) -> str:
    return cell.translate(LATEX_SPECIAL).replace(" *", "$^{*}$").replace(" ±", r" $\pm$ ")


WRITERS = MappingProxyType({".tsv": tsv_of, ".md": markdown_of, ".tex": latex_of})
