"""`plant relate`: mutual information between words and codes."""

import argparse
from pathlib import Path

from plant.cli.console import progress, say
from plant.cli.options import add_recipe_options, chosen_recipe


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", metavar="CORPUS", help="folder that `plant prepare` wrote")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the relevance")
    add_recipe_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    from plant.data.corpus import training_view
    from plant.data.store import load_corpus
    from plant.relevance.store import KIND, load_relevance, save_relevance
    from plant.stages.relate import relate
    from plant.store.artifact import read_manifest
    from plant.store.keeper import InFolder, digest_of

    recipe, out = chosen_recipe(arguments), Path(arguments.out)
    inputs = {"corpus": read_manifest(arguments.corpus, "corpus").digest, "recipe": digest_of(asdict(recipe.relate))}
    view = training_view(load_corpus(arguments.corpus))
    with progress() as tell:
        relevance = InFolder(out.parent, told=_tell(out)).once(
            out.name,
            inputs,
            lambda: relate(view, recipe.relate, tell),
            kind=KIND,
            save=lambda made, path, inputs: save_relevance(
                made, path, vocab=view.vocab, codebook=view.codebook, recipe=asdict(recipe.relate), inputs=inputs
            ),
            load=load_relevance,
        )
    say(f"{len(relevance.codes):,} codes, {relevance.n_tokens:,} words, {relevance.n_documents:,} fitted notes")


def _tell(out: Path):  # type: ignore[no-untyped-def]
    return lambda name, new: say(f"{'written' if new else 'already there, unchanged'}: {out}")
