"""What a study of a claim leaves: its rows as JSON lines, a table of their means, and both with plots on one page."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.evaluate.report.markdown import table
from plant.evaluate.report.plots import BLUE, GREEN, GREY, HEIGHT, ORANGE, VERMILION, svg_of
from plant.evaluate.significance.resampling import over_seeds
from plant.store.artifact import atomic_file
from plant.studies.claims import Claim
from plant.studies.variants import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (BLUE, VERMILION, GREEN, ORANGE, GREY)
BAR = 0.19  # inches of a bar and its name
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2937}
table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.25rem .75rem;border-bottom:1px solid #e5e7eb;text-align:right}
th:first-child,td:first-child{text-align:left}figure{display:inline-block;margin:0 1rem 1rem 0}
code{background:#f3f4f6;padding:.1rem .3rem}"""


@dataclass(frozen=True)
class Findings:
    """The rows of a study, what they say, what failed, and the command that repeats it."""

    claim: Claim
    rows: Sequence[Row]
    command: str
    failed: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """The titles of the table."""
        return (*self.claim.keys, "runs", *self.measures)

    @property
    def measures(self) -> tuple[str, ...]:
        """Those of the claim that rows tell: some explainers do not fit some coders."""
        return tuple(name for name in self.claim.measures if all(name in row for row in self.rows))

    def table(self) -> Iterator[tuple[str, ...]]:
        """Means over seeds with deviations, one row for each setting of the keys."""
        for key, rows in self.groups():
            spreads = [over_seeds([row[name] for row in rows]) for name in self.measures]
            cells = [f"{s.mean:.4f}" + ("" if s.deviation is None else f" ±{s.deviation:.4f}") for s in spreads]
            yield (*map(str, key), str(len(rows)), *cells)

    def groups(self) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
        """The rows that differ by seed alone."""
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            found.setdefault(tuple(row[key] for key in self.claim.keys), []).append(row)
        yield from found.items()

    @property
    def said(self) -> list[str]:
        """What the rows say in words."""
        return self.claim.findings(self.rows)


def write_findings(findings: Findings, out: Path) -> tuple[Path, ...]:
    """Write `rows.jsonl`, `table.csv`, `table.md` and `report.html`, whole or not at all."""
    texts = {
        "rows.jsonl": "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in findings.rows),
        "table.csv": _csv(findings),
        "table.md": table(findings.header, findings.table()) + "\n",
        "report.html": html_of(findings),
    }
    for name, text in texts.items():
        with atomic_file(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return tuple(out / name for name in texts)


def html_of(findings: Findings) -> str:
    """One page that needs nothing else."""
    claim = findings.claim
    failed = [f"Not in the table: {'; '.join(findings.failed)}."] if findings.failed else []
    parts = [
        f"<h1>{escape(claim.question)}</h1>",
        f"<p><code>{escape(findings.command)}</code></p>",
        "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in (*findings.said, *failed)) + "</ul>",
        *(f"<figure>{svg_of(draw, height=_height(findings))}</figure>" for draw in _drawings(findings)),
        _html_table(findings.header, findings.table()),
        "<p>Means over seeds, ± the standard deviation. All rows: rows.jsonl.</p>",
    ]
    head = f'<meta charset="utf-8"><title>{escape(claim.name)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _csv(findings: Findings) -> str:
    """The table with means and deviations in columns of their own, as docs/results has them."""
    columns = [f"{name} {what}" for name in findings.measures for what in ("mean", "deviation")]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*findings.claim.keys, "runs", *columns])
    for key, rows in findings.groups():
        spreads = [over_seeds([row[name] for row in rows]) for name in findings.measures]
        cells = [(f"{s.mean:.6f}", "" if s.deviation is None else f"{s.deviation:.6f}") for s in spreads]
        writer.writerow([*key, len(rows), *(number for pair in cells for number in pair)])
    return buffer.getvalue()


def _html_table(header: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in header)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"


def _height(findings: Findings) -> float:
    """Inches that leave each bar room for its name."""
    return HEIGHT if findings.claim.axis else max(HEIGHT, 1.0 + BAR * len(list(findings.groups())))


def _drawings(findings: Findings) -> Iterator[Any]:
    for name in findings.measures if findings.claim.drawn else ():
        draw = _lines if findings.claim.axis else _bars
        yield partial(draw, findings=findings, name=name)


def _lines(axes: "Axes", *, findings: Findings, name: str) -> None:
    """A measure over the axis, a line for each system, its deviation as a band."""
    axis, claim = findings.claim.axis, findings.claim
    system = next(key for key in claim.keys if key != axis)
    place, value = claim.keys.index(axis), claim.keys.index(system)
    groups = [(key, over_seeds([row[name] for row in rows])) for key, rows in findings.groups()]
    for number, one in enumerate(dict.fromkeys(key[value] for key, _ in groups)):
        points = sorted((key[place], s.mean, s.deviation or 0.0) for key, s in groups if key[value] == one)
        at, means, deviations = (list(column) for column in zip(*points, strict=True))
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(at, means, color=colour, linewidth=2, marker="o", markersize=3, label=str(one))
        low = [mean - deviation for mean, deviation in zip(means, deviations, strict=True)]
        high = [mean + deviation for mean, deviation in zip(means, deviations, strict=True)]
        axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    if axis == "notes":
        axes.set_xscale("log")
    axes.set(xlabel=axis, ylabel=name)


def _bars(axes: "Axes", *, findings: Findings, name: str) -> None:
    groups = [(" ".join(map(str, key)), over_seeds([row[name] for row in rows])) for key, rows in findings.groups()]
    labels, means = [label for label, _ in groups], [spread.mean for _, spread in groups]
    errors = [spread.deviation or 0.0 for _, spread in groups]
    axes.barh(labels, means, xerr=errors, color=BLUE, label=name)
    axes.invert_yaxis()
    axes.set(xlabel=name)
