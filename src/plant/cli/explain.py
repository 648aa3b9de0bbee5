"""`plant explain`: a note with the words lit that speak for each code."""

import argparse
from pathlib import Path

from plant.cli.console import say
from plant.cli.predict import Cut, add_coder_options, check_explainer, coder_folder
from plant.store.artifact import atomic_file, check_apart


def configure(parser: argparse.ArgumentParser) -> None:
    add_coder_options(parser)
    parser.add_argument("--note", default="", metavar="ID", help="the note to explain (default: the first)")
    parser.add_argument(
        "--code", action="append", default=[], help="explain this code; may be repeated (default: accepted)"
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with the words lit, code by code")


def run(arguments: argparse.Namespace) -> None:
    from plant.cli.highlight import html_page, terminal_text
    from plant.coder import Coder
    from plant.data.sources.bare import read_texts
    from plant.errors import InputError, quoted

    check_explainer(arguments.explainer)
    if arguments.html:
        check_apart(arguments.html, [arguments.notes, arguments.coder])
    coder = Coder.load(coder_folder(arguments.coder))
    notes = read_texts(arguments.notes, text_column=arguments.text_column, id_column=arguments.id_column)
    note = next((note for note in notes if arguments.note in ("", note.id)), None)
    if note is None:
        raise InputError(f"there is no note {quoted(arguments.note)} in {arguments.notes}")
    cut = Cut(coder.fitted.recipe.prepare)
    [note] = cut.watched([note])
    prediction = coder.explained(note, codes=arguments.code, explainer=arguments.explainer)
    print(terminal_text(note.text, prediction))
    cut.tell()
    if arguments.html:
        with atomic_file(Path(arguments.html)) as temporary:
            temporary.write_text(html_page(note.text, prediction), encoding="utf-8")
        say(f"page: {arguments.html}")
