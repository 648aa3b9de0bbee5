"""The table of a study as Markdown, CSV, JSON and LaTeX, its runs as JSON lines, and all of it with plots on a page."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from plant.evaluate.measures.bins import Group
from plant.evaluate.measures.table import MACRO_F1
from plant.evaluate.report.markdown import table
from plant.evaluate.significance.compare import Cell
from plant.evaluate.significance.compare_tables import header_of, latex_of, marked_rows, note_of
from plant.store.artifact import atomic_file
from plant.studies.sheet import draw_bars, height_of, sheet
from plant.studies.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN = ("MAP", "micro-F1", MACRO_F1)
COSTS = ("minutes", "CPU minutes", "peak MB", "parameters")
COST_NOTE = (
    "Minutes: the median wall time of a run, reading notes and reporting included; corpus, word vectors and what else "
    "runs share is made once and counts to the run that made it. CPU minutes: the median of those of all "
    "threads. Peak MB: the largest resident memory of a run, each in a "
    "process of its own. Parameters: all numbers that were learned, word vectors included."
)
COUNTS = {"codes": "labels", "gold": "gold", "accepted": "accepted", "distinct": "distinct"}
SHARES = {
    "P": "precision", "R": "recall", "F1": "f1", "macro-P": "macro_precision", "macro-R": "macro_recall",
    "macro-F1": "macro_f1", "R@15": "recall_at_15",
}  # fmt: skip
GROUP_HEADER = ("system", "fitted notes", *COUNTS, *SHARES)
GROUP_NOTE = (
    "Codes by how many fitted notes have them, means over runs. Codes: gold in some document; gold, accepted: pairs of "
    "a document and a code; distinct: different codes that are accepted. P, R, F1 are micro; macro-P, macro-R and "
    "macro-F1 are means of the gold codes. R@15: the share of gold pairs among the first 15 of their document."
)


def header(study: Study) -> tuple[str, ...]:
    """The titles of the columns."""
    return (*header_of(study.comparison), *COSTS)


def rows(study: Study) -> Iterator[tuple[str, ...]]:
    """A system's marked measures and what it cost."""
    for row, cost in zip(marked_rows(study.comparison), study.costs.values(), strict=True):
        times = (f"{cost.minutes:.1f}", f"{cost.cpu_minutes:.1f}")
        yield (*row, *times, f"{cost.peak_megabytes:,.0f}", f"{cost.parameters:,}")


def notes(study: Study) -> str:
    """What the marks and the columns of costs mean."""
    return f"{note_of(study.comparison)}\n{COST_NOTE}"


def write_study(study: Study, stem: Path) -> tuple[Path, ...]:
    """Write `stem.md`, `.csv`, `.json`, `.tex`, groups of codes as `stem-codes.md`, `.csv`; runs and plots beside."""
    texts = {".md": markdown_of(study), ".csv": csv_of(study), ".json": json_of(study)}
    texts[".tex"] = latex_of(study.comparison)
    texts |= {"-codes.md": _groups_markdown(study), "-codes.csv": _groups_csv(study)}
    files = {stem.with_name(stem.name + suffix): text for suffix, text in texts.items()}
    files[stem.with_name("report.html")] = html_of(study)
    files[stem.with_name("rows.jsonl")] = "".join(json.dumps(dict(row)) + "\n" for row in study.runs)
    for path, text in files.items():
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return tuple(files)


def html_of(study: Study) -> str:
    """The table with plots of the first measures."""
    comparison = study.comparison
    failed = [f"Not in the table: {'; '.join(study.failed)}."] if study.failed else []
    return sheet(
        "study",
        "Recipes on the same notes",
        said=failed,
        drawings=[partial(_bars, study=study, name=name) for name in DRAWN if name in comparison.measures],
        height=height_of(len(comparison.rows)),
        header=header(study),
        rows=rows(study),
        meant=(note_of(comparison), COST_NOTE, "Each run: rows.jsonl. Rare and frequent codes: the files of groups."),
    )


def _bars(axes: "Axes", *, study: Study, name: str) -> None:
    spreads = [row[name].spread for row in study.comparison.rows.values()]
    means, deviations = [spread.mean for spread in spreads], [spread.deviation for spread in spreads]
    draw_bars(axes, labels=list(study.comparison.rows), means=means, deviations=deviations, name=name)


def markdown_of(study: Study) -> str:
    """The table with marks, and what they mean."""
    return f"{table(header(study), rows(study))}\n\n\\{note_of(study.comparison)}\n\n{COST_NOTE}\n"


def csv_of(study: Study) -> str:
    """One line per system: mean, deviation and p of each measure with all digits, then the costs."""
    comparison, text = study.comparison, io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    titles = [f"{measure} {what}" for measure in comparison.measures for what in ("mean", "deviation", "p")]
    writer.writerow(["system", "runs", *titles, *COSTS])
    for name, row in comparison.rows.items():
        cells = [row[measure] for measure in comparison.measures]
        cost = study.costs[name]
        numbers = [number for cell in cells for number in (cell.spread.mean, cell.spread.deviation, cell.p)]
        costs = [cost.minutes, cost.cpu_minutes, cost.peak_megabytes, cost.parameters]
        writer.writerow([name, cells[0].spread.runs, *numbers, *costs])
    return text.getvalue()


def json_of(study: Study) -> str:
    """Everything, by system and measure."""
    comparison = study.comparison
    systems = {
        name: {
            "measures": {measure: _plain(row[measure]) for measure in comparison.measures},
            "cost": _cost(study, name),
        }
        for name, row in comparison.rows.items()
    }
    about = {"reference": comparison.reference, "documents": comparison.documents, "rounds": comparison.rounds}
    return json.dumps({**about, "systems": systems, "failed": study.failed}, indent=1) + "\n"


def group_rows(study: Study) -> Iterator[tuple[str, str, list[float], list[float]]]:
    """For each system all codes, then those of each training frequency: counts and shares, means over its runs."""
    for name, runs in study.groups.items():
        for same in zip(*runs, strict=True):
            counts, shares = ([_mean(same, field) for field in fields.values()] for fields in (COUNTS, SHARES))
            yield name, same[0].name, counts, shares


def _mean(groups: Sequence[Group], field: str) -> float:
    return fmean(getattr(group, field) for group in groups)


def _groups_markdown(study: Study) -> str:
    lines = [
        (name, group, *(f"{count:,.0f}" for count in counts), *(f"{share:.4f}" for share in shares))
        for name, group, counts, shares in group_rows(study)
    ]
    return f"{table(GROUP_HEADER, lines)}\n\n{GROUP_NOTE}\n"


def _groups_csv(study: Study) -> str:
    text = io.StringIO()
    lines = [(name, group, *counts, *shares) for name, group, counts, shares in group_rows(study)]
    csv.writer(text, lineterminator="\n").writerows([GROUP_HEADER, *lines])
    return text.getvalue()


def _plain(cell: Cell) -> Mapping[str, float | int | bool | None]:
    spread = cell.spread
    numbers = {"mean": spread.mean, "deviation": spread.deviation, "runs": spread.runs}
    return {**numbers, "p": cell.p, "significant": cell.significant}


def _cost(study: Study, name: str) -> Mapping[str, float | int]:
    cost = asdict(study.costs[name])
    return {key: cost[key] for key in ("minutes", "cpu_minutes", "peak_megabytes", "parameters")}
