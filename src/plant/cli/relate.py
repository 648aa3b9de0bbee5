"""`plant relate`: mutual information between words and codes."""

import argparse
from pathlib import Path

from plant.cli.console import announce, progress, say
from plant.cli.options import add_pool_options, add_recipe_options, chosen_pool, chosen_recipe


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", metavar="CORPUS", help="folder that `plant prepare` wrote")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the relevance")
    add_recipe_options(parser)
    add_pool_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from plant.cluster.relate import by_workers
    from plant.steps.relate import RELATE, relate_step
    from plant.steps.single import made_at, opened_corpus

    recipe, out = chosen_recipe(arguments), Path(arguments.out)
    apart = arguments.workers is not None or bool(arguments.cluster)
    with chosen_pool(arguments) as pool, progress() as tell:
        given = opened_corpus(arguments.corpus)
        step = relate_step(by_workers(pool, out)) if apart else RELATE
        found = made_at(out, step, recipe, given, progress=tell, notify=announce(out)).thing
    say(f"{len(found.codes):,} codes, {found.n_tokens:,} words, {found.n_documents:,} fitted notes")
