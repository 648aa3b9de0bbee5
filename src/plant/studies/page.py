"""What a study of a claim leaves: its rows as JSON lines, a table of their means, and both with plots on one page."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.evaluate.report.markdown import table
from plant.evaluate.report.plots import BLUE, GREEN, GREY, HEIGHT, ORANGE, VERMILION
from plant.evaluate.significance.resampling import over_seeds
from plant.store.artifact import atomic_file
from plant.studies.claims import Claim
from plant.studies.sheet import draw_bars, height_of, sheet
from plant.studies.variants import ENDS, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (BLUE, VERMILION, GREEN, ORANGE, GREY)
MEANT = (
    "Means over seeds, ± the standard deviation; in brackets, where they can be had, the ends of 95 % bootstrap "
    "intervals over the reported notes, means over seeds. All rows: rows.jsonl."
)


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
        """Means over seeds with deviations and intervals, one row for each setting of the keys."""
        for key, rows in self.groups():
            yield (*map(str, key), str(len(rows)), *(_told(rows, name) for name in self.measures))

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


def _told(rows: Sequence[Row], name: str) -> str:
    """A measure as a cell, such as `0.7123 ±0.0040 (0.6911-0.7335)`."""
    spread, ends = over_seeds([row[name] for row in rows]), _ends(rows, name)
    deviation = "" if spread.deviation is None else f" ±{spread.deviation:.4f}"
    return f"{spread.mean:.4f}{deviation}" + (f" ({ends[0]:.4f}-{ends[1]:.4f})" if ends else "")


def _ends(rows: Sequence[Row], name: str) -> tuple[float, float] | None:
    """The ends of a measure's interval over notes, means over seeds; None where some row has none."""
    columns = [f"{name} {end}" for end in ENDS]
    if not all(column in row for row in rows for column in columns):
        return None
    low, high = (over_seeds([row[column] for row in rows]).mean for column in columns)
    return low, high


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
    return sheet(
        claim.name,
        claim.question,
        command=findings.command,
        said=(*findings.said, *failed),
        drawings=_drawings(findings),
        height=HEIGHT if claim.axis else height_of(len(list(findings.groups()))),
        header=findings.header,
        rows=findings.table(),
        meant=[MEANT],
    )


def _csv(findings: Findings) -> str:
    """The table with means, deviations and ends of intervals in columns of their own, as docs/results has them."""
    columns = [f"{name} {what}" for name in findings.measures for what in ("mean", "deviation", *ENDS)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*findings.claim.keys, "runs", *columns])
    for key, rows in findings.groups():
        numbers = [number for name in findings.measures for number in _numbers(rows, name)]
        writer.writerow([*key, len(rows), *("" if number is None else f"{number:.6f}" for number in numbers)])
    return buffer.getvalue()


def _numbers(rows: Sequence[Row], name: str) -> tuple[float | None, ...]:
    spread, ends = over_seeds([row[name] for row in rows]), _ends(rows, name)
    return (spread.mean, spread.deviation, *(ends or (None, None)))


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
    draw_bars(axes, labels=labels, means=means, deviations=[spread.deviation for _, spread in groups], name=name)
