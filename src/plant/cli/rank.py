"""`plant rank`: train the model that ranks words for each code."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from plant.cli.console import progress, say
from plant.cli.options import add_device_option, add_recipe_options, chosen_device, chosen_recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from plant.text.vocab import Vocab


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("relevance", metavar="RELEVANCE", help="folder that `plant relate` wrote")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the ranker")
    parser.add_argument("--language-model", metavar="DIR", help="start the words from the embeddings of this model")
    add_device_option(parser)
    add_recipe_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict, replace

    from plant.cli.show_relevance import print_quality, quality_by_frequency
    from plant.nn.planting.ranker_store import KIND, TrainedRanker, load_ranker, save_ranker
    from plant.relevance.store import load_names, load_relevance, name_files
    from plant.stages.rank import rank
    from plant.store.artifact import read_manifest
    from plant.store.keeper import InFolder, digest_of

    recipe, out = chosen_recipe(arguments), Path(arguments.out)
    section = replace(recipe.rank, vectors="language-model") if arguments.language_model else recipe.rank
    request = {"rank": asdict(section), "seed": recipe.seed}
    made_from = {"relevance": arguments.relevance, "language-model": arguments.language_model}
    inputs = {kind: read_manifest(path, kind).digest for kind, path in made_from.items() if path}
    inputs["recipe"] = digest_of(request)
    relevance, (vocab, codebook) = load_relevance(arguments.relevance), load_names(arguments.relevance)
    keeper = InFolder(out.parent, told=lambda name, new: say(f"{'written' if new else 'already there'}: {out}"))

    def make() -> TrainedRanker:
        vectors = _vectors(arguments.language_model, vocab) if arguments.language_model else None
        checkpoint, device = keeper.checkpoint(out.name, inputs), chosen_device(arguments)
        return rank(
            relevance, section, seed=recipe.seed, vectors=vectors, checkpoint=checkpoint, device=device, progress=tell
        )

    def save(trained: TrainedRanker, path: Path, inputs: Mapping[str, str]) -> None:
        save_ranker(trained, path, files=name_files(vocab, codebook, relevance.codes), recipe=request, inputs=inputs)

    with progress() as tell:
        trained = keeper.once(out.name, inputs, make, kind=KIND, save=save, load=load_ranker)
    say(f"{trained.form}, {trained.parameters:,} parameters, {len(trained.curve)} epochs")
    print_quality(quality_by_frequency(trained, relevance))


def _vectors(path: str, vocab: "Vocab") -> "NDArray[np.float32]":
    """The model's embedding of each word; words that it does not know get the mean."""
    from plant.nn.language.awd_lstm import with_vocab
    from plant.nn.language.store import load_language_model

    return with_vocab(load_language_model(path), vocab).network.words.detach().numpy()
