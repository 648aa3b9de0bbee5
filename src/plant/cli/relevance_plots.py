"""Pictures of relevance: the words of a code, and how well the ranker ranks."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plant.cli.plots import BLUE, ORANGE, save_figure
from plant.cli.show_relevance import Bin, CodeWords, Word

GREEN = "#009E73"


def draw_relevance(words: CodeWords | None, bins: Sequence[Bin], curve: Sequence[float], path: Path) -> None:
    """Bars of a code's best words by information and by the ranker; nDCG by frequency bin and by epoch."""
    from matplotlib.figure import Figure

    panels: list[Callable[[Any], None]] = []
    if words:
        panels.append(lambda axes: _bars(axes, words.by_information, "mutual information", BLUE))
        if words.by_ranker:
            panels.append(lambda axes: _bars(axes, words.by_ranker, "score of the ranker", ORANGE))
    if bins:
        panels.append(lambda axes: _quality(axes, bins))
        panels.append(lambda axes: _learning(axes, curve))
    title = f"{words.code} {words.description}" if words else "How well the ranker ranks words"
    figure = Figure(figsize=(4.2 * max(len(panels), 1), 4.6), layout="constrained")
    for number, draw in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), number)
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    save_figure(figure, path, title=title)


def _bars(axes: Any, words: Sequence[Word], label: str, colour: str) -> None:
    places = range(len(words))
    axes.barh(places, [word.score for word in words], color=colour)
    axes.set_yticks(places, [word.word for word in words])
    axes.invert_yaxis()
    axes.set_xlabel(label)


def _quality(axes: Any, bins: Sequence[Bin]) -> None:
    places = range(len(bins))
    for number, (name, colour) in enumerate(zip(bins[0].ndcg, (BLUE, ORANGE, GREEN), strict=True)):
        shifted = [place + 0.25 * (number - 1) for place in places]
        axes.bar(shifted, [row.ndcg[name] for row in bins], width=0.25, color=colour, label=name)
    axes.set_xticks(places, [f"{row.fitted_notes}\n({row.codes:,})" for row in bins])
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("fitted notes of the code (number of codes)")
    axes.set_ylabel("nDCG over the whole vocabulary")
    axes.legend(loc="lower left", framealpha=1)


def _learning(axes: Any, curve: Sequence[float]) -> None:
    axes.plot(range(1, len(curve) + 1), curve, color=ORANGE, linewidth=2)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("epoch")
    axes.set_ylabel("nDCG@k before each step")
