"""`plant rank`: train the model that ranks words for each code."""

import argparse
from pathlib import Path

from plant.cli.console import progress, say
from plant.cli.options import add_recipe_options, chosen_recipe

HELP = "train the ranker of words for each code on a relevance (goes on where a killed run stopped)"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("relevance", metavar="RELEVANCE", help="folder that `plant relate` wrote")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the ranker")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ... (default: cpu)")
    add_recipe_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    from plant.artifact import read_manifest
    from plant.cli.show_relevance import print_quality, quality_by_frequency
    from plant.keeper import InFolder, digest_of
    from plant.nn.ranker_store import KIND, load_ranker, save_ranker
    from plant.relevance.store import load_names, load_relevance, name_files
    from plant.stages.rank import rank

    recipe, out = chosen_recipe(arguments), Path(arguments.out)
    request = {"rank": asdict(recipe.rank), "seed": recipe.seed}
    inputs = {"relevance": read_manifest(arguments.relevance, "relevance").digest, "recipe": digest_of(request)}
    relevance, names = load_relevance(arguments.relevance), load_names(arguments.relevance)
    keeper = InFolder(out.parent, told=lambda name, new: say(f"{'written' if new else 'already there'}: {out}"))
    with progress() as tell:
        trained = keeper.once(
            out.name,
            inputs,
            lambda: rank(
                relevance,
                recipe.rank,
                seed=recipe.seed,
                checkpoint=keeper.checkpoint(out.name, inputs),
                device=arguments.device,
                progress=tell,
            ),
            kind=KIND,
            save=lambda made, path, inputs: save_ranker(
                made, path, files=name_files(*names, relevance.codes), recipe=request, inputs=inputs
            ),
            load=load_ranker,
        )
    say(f"{trained.form}, {trained.parameters:,} parameters, {len(trained.curve)} epochs")
    print_quality(quality_by_frequency(trained, relevance))
