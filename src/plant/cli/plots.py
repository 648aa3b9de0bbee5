"""Pictures in files; colours that colour-blind readers can tell apart."""

import base64
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from plant.data.corpus import Corpus, Role
from plant.data.summary import label_frequencies
from plant.errors import InputError
from plant.store.artifact import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072B2", "#D55E00"
FORMATS = (".png", ".svg", ".html")


def draw_label_frequencies(corpus: Corpus, path: Path) -> None:
    """The label-frequency curve of the fitted notes, most frequent label first, both axes on a log scale."""
    from matplotlib.figure import Figure

    frequencies = np.sort(label_frequencies(corpus, corpus.role == Role.FIT))[::-1]
    frequencies = frequencies[frequencies > 0]
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.loglog(np.arange(1, len(frequencies) + 1), frequencies, color=BLUE, linewidth=2)
    rare = int((frequencies < 10).sum())
    axes.axhline(10, color=ORANGE, linestyle="--", linewidth=1)
    axes.text(1, 10.6, f"{rare:,} of {len(frequencies):,} codes in fewer than 10 notes", color=ORANGE, fontsize=9)
    axes.set_xlabel("code, by falling frequency")
    axes.set_ylabel("fitted notes with the code")
    axes.set_title("How often each code occurs", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, title="How often each code occurs")


def save_figure(figure: "Figure", path: Path, *, title: str) -> None:
    """Write a figure as the file's name asks: a picture, or a page that holds it."""
    if path.suffix not in FORMATS:
        raise InputError(f"--plot {path}: the file must end in one of {', '.join(FORMATS)}")
    buffer = BytesIO()
    figure.savefig(buffer, format="svg" if path.suffix == ".svg" else "png", dpi=150)
    content = buffer.getvalue()
    with atomic_file(path) as temporary:
        temporary.write_bytes(_page(content, title) if path.suffix == ".html" else content)


def _page(png: bytes, title: str) -> bytes:
    title = escape(title)
    image = base64.b64encode(png).decode()
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<body><img alt="{title}" style="max-width:100%" src="data:image/png;base64,{image}"></body></html>'
    ).encode()
