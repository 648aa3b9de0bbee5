"""`plant codes`: the codes that a coder knows."""

import argparse
from pathlib import Path

from plant.cli.console import say
from plant.cli.predict import coder_folder

HELP = "add codes by their names to a fitted coder"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help=HELP, description="Add codes that no fitted note has, by their names alone.")
    add.add_argument("coder", metavar="CODER", help="folder of a coder that matches names: RUN/coder")
    add.add_argument("table", metavar="TABLE", help="table of codes: code, description, parent, synonyms")
    add.add_argument("--out", required=True, metavar="DIR", help="folder of the coder with the codes")


def run(arguments: argparse.Namespace) -> None:
    from plant.coder import Coder
    from plant.codes.files import read_codebook
    from plant.store.artifact import check_apart
    from plant.systems.coder import renamed_codes

    check_apart(arguments.out, [arguments.coder, arguments.table])
    coder = Coder.load(coder_folder(arguments.coder))
    before = len(coder.classes_)
    book = read_codebook(Path(arguments.table), system=coder.fitted.codebook.system)
    if renamed := renamed_codes(coder.fitted, book):
        say(f"{renamed:,} codes that the coder knows have further names in the table, which are left out: names of "
            "fitted codes are learned by fitting (plant run --codebook)")  # fmt: skip
    coder.add_codes(book)
    coder.save(arguments.out)
    say(f"{len(coder.classes_) - before:,} codes added to {before:,}: {arguments.out}")
