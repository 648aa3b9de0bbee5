"""`plant explain`: a note with the words lit that speak for each code."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plant.cli.console import say
from plant.cli.predict import add_coder_options, check_explainer, coder_folder, tell_cut
from plant.cluster.coding import Cut
from plant.errors import InputError, quoted, quoted_path
from plant.store.artifact import atomic_file, check_apart

if TYPE_CHECKING:
    from plant.coder import Coder
    from plant.types import Note, Prediction

PAGES = (".html", ".htm")
MISSES = 5  # codes below the threshold that a page shows


def configure(parser: argparse.ArgumentParser) -> None:
    add_coder_options(parser)
    parser.add_argument("--note", default="", metavar="ID", help="the note to explain (default: the first)")
    parser.add_argument(
        "--code", action="append", default=[], help="explain this code; may be repeated (default: accepted)"
    )
    parser.add_argument("--heed-cues", action="store_true",
                        help="do not accept a code all of whose evidence is negated or of the family")  # fmt: skip
    parser.add_argument("--html", metavar="FILE", help="write a page with the words lit, code by code")


def run(arguments: argparse.Namespace) -> None:
    from plant.cli.highlight import html_page, terminal_text
    from plant.coder import Coder
    from plant.data.sources.bare import read_texts

    check_explainer(arguments.explainer)
    if arguments.html:
        if Path(arguments.html).suffix.lower() not in PAGES:
            raise InputError(f"cannot write a page to {quoted_path(arguments.html)}: name it .html")
        check_apart(arguments.html, [arguments.notes, arguments.coder])
    coder = Coder.load(coder_folder(arguments.coder))
    notes = read_texts(arguments.notes, text_column=arguments.text_column, id_column=arguments.id_column)
    note = next((note for note in notes if arguments.note in ("", note.id)), None)
    if note is None:
        raise InputError(f"there is no note {quoted(arguments.note)} in {arguments.notes}")
    cut = Cut(coder.fitted.recipe.prepare)
    [note] = cut.watched([note])
    prediction = _explained(coder, note, arguments)
    print(terminal_text(note.text, shown_in_terminal(prediction, arguments.code)))
    tell_cut(cut.tokens, cut.notes)
    if arguments.html:
        with atomic_file(Path(arguments.html)) as temporary:
            temporary.write_text(html_page(note.text, prediction), encoding="utf-8")
        say(f"page: {arguments.html}")


def _explained(coder: "Coder", note: "Note", arguments: argparse.Namespace) -> "Prediction":
    """The codes that are asked for, or the accepted ones and the nearest misses; with cues around their evidence."""
    from plant.explain.around import with_cues

    if arguments.code:
        found = coder.explained(note, codes=arguments.code, explainer=arguments.explainer)
    else:
        accepted = len(coder.explained(note, explainer=arguments.explainer).ranked)
        (found,) = coder.predict_stream([note], top=accepted + MISSES, explainer=arguments.explainer)
    return with_cues(found, note.text, heed=arguments.heed_cues)


def shown_in_terminal(prediction: "Prediction", asked: Sequence[str]) -> "Prediction":
    """All codes that are asked for, or else the accepted ones: near misses have room on a page."""
    return prediction if asked else replace(prediction, ranked=tuple(s for s in prediction.ranked if s.accepted))
