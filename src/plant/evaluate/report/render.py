"""A report in files: one HTML page, Markdown, JSON."""

import base64
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from plant.evaluate.measures.table import MACRO_F1
from plant.evaluate.report.content import Report, report_table
from plant.evaluate.report.markdown import markdown_of
from plant.evaluate.report.plots import plots_of
from plant.evaluate.report.words import count, facts_of, interval, number, share
from plant.store.artifact import atomic_files

CARDS = ("MAP", "micro-F1", MACRO_F1, "P@15", "P@8", "P@5")
CAPTIONS = {
    "bins": ("Rare and frequent codes", "By how many training notes have a code."),
    "precision_recall": ("Precision and recall", "All codes together, at every global threshold."),
    "thresholds": ("Choice of threshold", "What other thresholds would give here; tune on dev, never on these notes."),
    "reliability": ("Calibration", "Document-code pairs with a probability of at least 0.01, in equal bins."),
    "skew": ("Label skew", "How many notes have each code."),
    "history": ("Training", "Epoch by epoch, as the run wrote it down."),
}


def write_report(report: Report, folder: Path | str) -> Path:
    """Write `report.html`, `report.md` and `report.json`; the path of the first."""
    folder = Path(folder)
    texts = {"json": json_of(report), "md": markdown_of(report), "html": html_of(report)}
    with atomic_files([folder / f"report.{name}" for name in texts]) as temporaries:
        for temporary, text in zip(temporaries, texts.values(), strict=True):
            temporary.write_text(text, encoding="utf-8")
    return folder / "report.html"


def json_of(report: Report) -> str:
    """The report as one JSON object."""
    return json.dumps(report_table(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def html_of(report: Report) -> str:
    """One file without outside references: tables, plots, and words that say how to read them."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "share": share, "thousands": count, "interval": interval}
    template = resources.files("plant.evaluate").joinpath("report.html.jinja").read_text(encoding="utf-8")
    figures = [_figure(name, svg) for name, svg in plots_of(report).items()]
    cards = [name for name in CARDS if name in report.measures][:4]
    return environment.from_string(template).render(report=report, figures=figures, cards=cards, facts=facts_of(report))


def _figure(name: str, svg: str) -> Mapping[str, str]:
    title, caption = CAPTIONS[name]
    source = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    return {"title": title, "caption": caption, "source": source}
