"""Plots of a report as SVG; colours of Okabe and Ito, which colour-blind readers can tell apart."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from plant.evaluate.choosing.calibration import Reliability
from plant.evaluate.measures.bins import Group
from plant.evaluate.measures.curves import Curve
from plant.evaluate.report.content import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6b7280"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, sharp, searchable
    "svg.hashsalt": "plant",  # the same report gives the same bytes
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9ca3af",
    "axes.labelcolor": "#374151",
    "xtick.color": "#4b5563",
    "ytick.color": "#4b5563",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
}
WIDTH, HEIGHT = 5.4, 3.5  # inches
Draw = Callable[["Axes"], None]


def plots_of(report: Report) -> dict[str, str]:
    """SVG pictures by name, those for which the report has the numbers."""
    wanted: dict[str, Draw | None] = {
        "bins": (lambda axes: draw_bins(axes, report.bins, report.prior_bins)) if report.bins else None,
        "precision_recall": (lambda axes: draw_precision_recall(axes, report)) if report.curve else None,
        "thresholds": (lambda axes: draw_thresholds(axes, report)) if report.curve else None,
        "reliability": (lambda axes: draw_reliability(axes, report)) if report.calibration else None,
        "skew": lambda axes: draw_skew(axes, report),
        "history": (lambda axes: draw_history(axes, report)) if report.frame.history else None,
    }
    return {name: svg_of(draw) for name, draw in wanted.items() if draw is not None}


def draw_bins(axes: "Axes", bins: Sequence[Group], prior: Sequence[Group]) -> None:
    """Recall at 15 and F1 of each training-frequency bin, with the prior's as black marks."""
    shown = [(row, other) for row, other in zip(bins, prior, strict=True) if row.gold]
    places = np.arange(len(shown))
    series = (
        ("R@15", "recall_at_15", BLUE, "", -0.2),
        ("F1", "f1", ORANGE, "///", 0.2),
    )
    for title, field, colour, hatch, shift in series:
        heights = [getattr(row, field) for row, _ in shown]
        marks = [getattr(other, field) for _, other in shown]
        axes.bar(places + shift, heights, 0.38, color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=title)
        label = "frequency prior" if shift < 0 else None
        axes.plot(places + shift, marks, linestyle="none", marker="_", color="black", markersize=14, label=label)
    axes.set_xticks(places, [f"{row.name}\n{row.gold:,}" for row, _ in shown])
    axes.set_xlabel("training notes of a code; below: gold codes to find")
    axes.set_ylim(0, 1.03)
    axes.grid(axis="x", visible=False)


def draw_precision_recall(axes: "Axes", report: Report) -> None:
    """Precision against recall of all codes together, and where the system stands."""
    curve = _curve(report)
    axes.plot(curve.recall, curve.precision, color=BLUE, linewidth=2, label="any global threshold")
    standing = (report.measures["micro-R"].value, report.measures["micro-P"].value)
    axes.plot(*standing, "o", color=VERMILION, markersize=8, label="accepted")
    if "micro-R" in report.prior:
        prior = (report.prior["micro-R"].value, report.prior["micro-P"].value)
        axes.plot(*prior, "s", color="black", markersize=6, label="frequency prior")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="micro recall", ylabel="micro precision")


def draw_thresholds(axes: "Axes", report: Report) -> None:
    """Precision, recall and F1 against a global threshold."""
    curve = _curve(report)
    for values, colour, style, title in (
        (curve.precision, GREEN, "--", "precision"),
        (curve.recall, ORANGE, "-.", "recall"),
        (curve.f1, BLUE, "-", "F1"),
    ):
        axes.plot(curve.thresholds, values, color=colour, linestyle=style, linewidth=2, label=title)
    if report.frame.threshold is not None:
        axes.axvline(report.frame.threshold, color=VERMILION, linewidth=1.2, label="threshold used")
    axes.set(ylim=(0, 1.02), xlabel="threshold", ylabel="micro measure")


def draw_reliability(axes: "Axes", report: Report) -> None:
    """The share of right codes against their probability."""
    row = _reliability(report)
    shown = row.counts > 0
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1, label="perfect")
    axes.plot(row.confidence[shown], row.share[shown], "o-", color=BLUE, linewidth=2, label=f"ECE {row.error:.3f}")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="mean probability", ylabel="share that is gold")


def draw_skew(axes: "Axes", report: Report) -> None:
    """How often each code occurs, most frequent first."""
    series = (("training notes", report.train_skew, BLUE, "-"), ("evaluated notes", report.gold_skew, VERMILION, "--"))
    for title, counts, colour, style in series:
        if len(counts):
            places = np.unique(np.geomspace(1, len(counts), 200).astype(int))
            axes.plot(places, counts[places - 1], color=colour, linestyle=style, linewidth=2, label=title)
    axes.set(xscale="log", yscale="log", xlabel="code, most frequent first", ylabel="notes with the code")


def draw_history(axes: "Axes", report: Report) -> None:
    """Losses (and whatever else was written down) of every epoch."""
    rows = report.frame.history
    names = [name for name in dict.fromkeys(key for row in rows for key in row) if name != "epoch"]
    styles = ("-", "--", "-.", ":")
    for number, name in enumerate(names):
        points = [(row.get("epoch", place + 1), row[name]) for place, row in enumerate(rows) if name in row]
        colour = (BLUE, VERMILION, GREEN, ORANGE, GREY)[number % 5]
        axes.plot(*zip(*points, strict=True), color=colour, linestyle=styles[number % 4], linewidth=2, label=name)
    axes.set(xlabel="epoch")


def svg_of(draw: Draw, *, height: float = HEIGHT) -> str:
    """What is drawn on axes in the style of the report, as SVG; `height` in inches."""
    with _axes(height) as (axes, save):
        draw(axes)
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2, columnspacing=1.2, handlelength=1.6
        )
        return save()


@contextmanager
def _axes(height: float = HEIGHT) -> Iterator[tuple["Axes", Callable[[], str]]]:
    """Axes in the style of the report, and the function that turns them into SVG."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")

        def save() -> str:
            buffer = StringIO()
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
            return buffer.getvalue()

        yield figure.add_subplot(), save


def _curve(report: Report) -> Curve:
    assert report.curve is not None
    return report.curve


def _reliability(report: Report) -> Reliability:
    assert report.calibration is not None
    return report.calibration.likely_pairs
