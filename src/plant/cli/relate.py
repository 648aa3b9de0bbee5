"""`plant relate`: mutual information between words and codes."""

import argparse
from pathlib import Path

from plant.cli.console import announce, progress, say
from plant.cli.options import add_recipe_options, chosen_recipe


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", metavar="CORPUS", help="folder that `plant prepare` wrote")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the relevance")
    add_recipe_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from plant.steps.relate import RELATE
    from plant.steps.single import made_at, opened_corpus

    recipe, out = chosen_recipe(arguments), Path(arguments.out)
    with progress() as tell:
        given = opened_corpus(arguments.corpus)
        found = made_at(out, RELATE, recipe, given, progress=tell, notify=announce(out)).thing
    say(f"{len(found.codes):,} codes, {found.n_tokens:,} words, {found.n_documents:,} fitted notes")
