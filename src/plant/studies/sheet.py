"""One page of a study that needs nothing else: what was asked, the command, what was found, plots and a table."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from plant.evaluate.report.plots import BLUE, HEIGHT, svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAR = 0.19  # inches of a bar and its name
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2937}
table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.25rem .75rem;border-bottom:1px solid #e5e7eb;text-align:right}
th:first-child,td:first-child{text-align:left}figure{display:inline-block;margin:0 1rem 1rem 0}
code{background:#f3f4f6;padding:.1rem .3rem}"""


def sheet(
    name: str,
    question: str,
    *,
    command: str = "",
    said: Iterable[str] = (),
    drawings: Iterable[Any] = (),
    height: float = HEIGHT,
    header: Iterable[str],
    rows: Iterable[Sequence[str]],
    meant: Iterable[str],
) -> str:
    """The page as HTML, its plots inside."""
    parts = [
        f"<h1>{escape(question)}</h1>",
        f"<p><code>{escape(command)}</code></p>" if command else "",
        "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in said) + "</ul>",
        *(f"<figure>{svg_of(draw, height=height)}</figure>" for draw in drawings),
        _table(header, rows),
        *(f"<p>{escape(line)}</p>" for line in meant),
    ]
    head = f'<meta charset="utf-8"><title>{escape(name)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def height_of(bars: int) -> float:
    """Inches that leave each bar room for its name."""
    return max(HEIGHT, 1.0 + BAR * bars)


def draw_bars(
    axes: "Axes", *, labels: Sequence[str], means: Sequence[float], deviations: Sequence[float | None], name: str
) -> None:
    """A bar for each system, the first at the top."""
    axes.barh(labels, means, xerr=[one or 0.0 for one in deviations], color=BLUE, label=name)
    axes.invert_yaxis()
    axes.set(xlabel=name)


def _table(header: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in header)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"
