"""Numbers and facts of a report as people read them."""

import json
from typing import Any

from plant.evaluate.report.content import Report
from plant.evaluate.significance.resampling import Value

NOTHING = "–"


def number(value: float | None) -> str:
    """A measured number: shares with four decimals, counts with at most two."""
    if value is None or value != value:
        return NOTHING
    return f"{value:.4f}" if abs(value) <= 1 else f"{value:,.2f}".removesuffix(".00")


def share(value: float | None) -> str:
    """A share with three decimals."""
    return NOTHING if value is None or value != value else f"{value:.3f}"


def count(value: int) -> str:
    """A count with its thousands apart."""
    return f"{value:,}"


def interval(value: Value) -> str:
    """The interval of a measured number, empty where it has none."""
    return "" if value.low is None or value.high is None else f"{number(value.low)} – {number(value.high)}"


def facts_of(report: Report) -> dict[str, str]:
    """What has to be known beside the numbers, by title."""
    counts, frame = report.counts, report.frame
    facts = {
        "Documents": f"{counts.documents:,}{_without_gold(report)}",
        "Codes": f"{counts.labels:,}; gold in these documents: {counts.gold_labels:,} ({counts.gold:,} times)",
        "Training notes": f"{counts.train_documents:,}" if counts.train_documents else "not given",
        "Never seen in training": _unseen(report),
        "Ranked per document": f"at most {counts.list_length:,} codes{' (all of training)' if counts.complete else ''}",
        "Threshold": ("" if frame.threshold is None else f"{frame.threshold:.4g}, ") + frame.threshold_origin,
        "Seed": "" if frame.seed is None else str(frame.seed),
        "Temperature": "" if frame.temperature is None else f"{frame.temperature:.3f}, fitted on dev",
        **{f"Split: {name}": _short(value) for name, value in frame.splits.items()},
        **{f"Remark {place}": text for place, text in enumerate(frame.remarks, start=1)},
    }
    return {title: text for title, text in facts.items() if text}


def _without_gold(report: Report) -> str:
    return f", {report.counts.without_gold:,} of them without gold codes" if report.counts.without_gold else ""


def _unseen(report: Report) -> str:
    counts = report.counts
    if counts.unseen_labels is None or counts.unseen is None:
        return "not known"
    lost = 100 * counts.unseen / max(1, counts.gold)
    return f"{counts.unseen_labels:,} of the gold codes, {counts.unseen:,} times ({lost:.1f} %); they count as missed"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:159]}…"
