"""`plant rank`: train the model that ranks words for each code."""

import argparse
from pathlib import Path

from plant.cli.console import announce, progress, say
from plant.cli.options import add_device_option, add_recipe_options, chosen_device, chosen_recipe


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("relevance", metavar="RELEVANCE", help="folder that `plant relate` wrote")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the ranker")
    parser.add_argument("--language-model", metavar="DIR", help="start the words from the embeddings of this model")
    add_device_option(parser)
    add_recipe_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from dataclasses import replace

    from plant.store.artifact import read_manifest

    recipe, out = chosen_recipe(arguments), Path(arguments.out)
    read_manifest(arguments.relevance, "relevance")  # what is wrong is told before torch is there
    from plant.cli.show_relevance import print_quality, quality_by_frequency
    from plant.relevance.store import load_relevance
    from plant.steps.pretrain import load_pretrained
    from plant.steps.rank import RANK
    from plant.steps.single import made_at, opened

    device = chosen_device(arguments)
    given = {"relevance": opened(arguments.relevance, "relevance", load_relevance)}
    if arguments.language_model:
        recipe = replace(recipe, rank=replace(recipe.rank, vectors="language-model"))
        given["language-model"] = opened(arguments.language_model, "language-model", load_pretrained)
    with progress() as tell:
        made = made_at(out, RANK, recipe, given, device=device, progress=tell, notify=announce(out))
    trained = made.thing
    say(f"{trained.form}, {trained.parameters:,} parameters, {len(trained.curve)} epochs")
    print_quality(quality_by_frequency(trained, given["relevance"].thing.thing))
