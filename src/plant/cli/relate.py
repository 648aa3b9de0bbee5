"""`plant relate`: mutual information between words and codes."""

import argparse
from contextlib import nullcontext
from pathlib import Path

from plant.cli.console import announce, progress, say
from plant.cli.options import add_pool_options, add_recipe_options, chosen_pool, chosen_recipe, works_apart
from plant.errors import InputError
from plant.store.artifact import check_apart, read_manifest


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpora", metavar="CORPUS|COUNTS", nargs="+",
                        help="folder that `plant prepare` wrote; several that it wrote together; or counts of several "
                        "places, to be added")  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the relevance, or of the counts")
    parser.add_argument("--counts", action="store_true",
                        help="write how often words and codes meet in corpora, no text: what may leave")  # fmt: skip
    parser.add_argument("--least", type=int, default=5, metavar="NOTES",
                        help="with --counts, leave out words of fewer notes, maybe names (default: 5)")  # fmt: skip
    add_recipe_options(parser)
    add_pool_options(parser)


def run(arguments: argparse.Namespace) -> None:
    kinds = {read_manifest(path).kind for path in arguments.corpora}
    if kinds == {"counts"} and not arguments.counts:
        _relate_counts(arguments)
    elif arguments.counts and arguments.least < 1:
        raise InputError(f"--least {arguments.least}: a number of notes, at least 1")
    elif kinds != {"corpus"}:
        what = " and ".join(sorted(kinds))
        raise InputError(
            f"{what}: what is related, or counted (--counts), is a corpus (plant prepare), the shards of one, or, "
            "without --counts, the counts of several places"
        )
    elif arguments.counts:
        _count(arguments)
    else:
        _relate(arguments)


def _relate(arguments: argparse.Namespace) -> None:
    from plant.cluster.relate import by_workers
    from plant.steps.relate import relate_shards_step, relate_step
    from plant.steps.single import made_at, opened_corpus, opened_shards

    recipe, out = chosen_recipe(arguments), Path(arguments.out)
    with chosen_pool(arguments) if works_apart(arguments) else nullcontext() as pool, progress() as tell:
        find = None if pool is None else by_workers(pool, out)
        if len(arguments.corpora) > 1:
            given, step = opened_shards(arguments.corpora), relate_shards_step(find)
        else:
            given, step = opened_corpus(arguments.corpora[0]), relate_step(find)
        found = made_at(out, step, recipe, given, progress=tell, notify=announce(out)).thing
    say(f"{len(found.codes):,} codes, {found.n_tokens:,} words, {found.n_documents:,} fitted notes")


def _count(arguments: argparse.Namespace) -> None:
    from plant.data.corpus import training_view
    from plant.data.shards import open_shards
    from plant.data.store import load_corpus
    from plant.relevance.pooled import of_frequent_words, save_counts
    from plant.steps.relate import count_all

    check_apart(arguments.out, arguments.corpora)
    one, *others = arguments.corpora
    views = open_shards(arguments.corpora).views() if others else [training_view(load_corpus(one))]
    counted = of_frequent_words(count_all(views), least=arguments.least)
    save_counts(counted, arguments.out)
    pairs = (
        f"{len(counted.thing.tokens):,} pairs of {len(counted.codebook.codes):,} codes and {len(counted.vocab):,} words"
    )
    say(f"{pairs}, no text: {arguments.out}; words of fewer than {arguments.least:,} notes are left out")


def _relate_counts(arguments: argparse.Namespace) -> None:
    from plant.relevance.pooled import load_counts, pooled
    from plant.relevance.store import save_relevance
    from plant.steps.relate import relate_counts

    check_apart(arguments.out, arguments.corpora)
    recipe = chosen_recipe(arguments)
    with progress() as tell:
        found = relate_counts(pooled([load_counts(path) for path in arguments.corpora]), recipe.relate, tell)
        save_relevance(found, arguments.out)
    about, places = found.thing, len(arguments.corpora)
    say(f"{len(about.codes):,} codes, {about.n_tokens:,} words, {about.n_documents:,} notes of {places:,} places")
