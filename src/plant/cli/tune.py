"""`plant tune`: look for better knobs of a recipe, judged by the choosing notes."""

import argparse
from contextlib import nullcontext
from pathlib import Path

from plant.cli.console import print_table, progress, say
from plant.cli.options import (
    add_plan_options,
    add_pool_options,
    add_recipe_options,
    check_source,
    chosen_pool,
    works_apart,
)
from plant.cli.prepare import add_source_options, request_of
from plant.errors import InputError
from plant.store.temporary import check_here

AT_ONCE = 4  # sets of knobs that are drawn at a time on a cluster, where --workers does not say how many


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source_path", metavar="SOURCE", help="as for `plant prepare`")
    parser.add_argument("--range", dest="ranges", action="append", required=True, metavar="KEY=LOW..HIGH[:log]|A,B",
                        help="what a knob may be; may be repeated")  # fmt: skip
    parser.add_argument("--trials", type=int, default=20, help="sets of knobs to try in all (default: 20)")
    parser.add_argument("--measure", default="MAP", help="of the choosing notes, to be raised (default: MAP)")
    parser.add_argument("--draw", type=int, default=1, metavar="SEED", help="of the drawing of knobs (default: 1)")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the search; called again, it goes on")
    add_source_options(parser)
    add_plan_options(parser)
    add_recipe_options(parser, default="tfidf")
    add_pool_options(parser)


def run(arguments: argparse.Namespace) -> None:
    check_source(arguments.source_path)
    check_here(Path(arguments.out))
    from plant.cluster.tune import by_workers
    from plant.data.store import load_corpus
    from plant.evaluate.measures.table import measure
    from plant.recipe.reading import load_recipe
    from plant.steps.prepare import prepare_once
    from plant.steps.tune import Search, check_knobs, read_knob, tune
    from plant.store.artifact import check_apart

    if arguments.trials < 1:
        raise InputError(f"--trials {arguments.trials}: a number of at least 1")
    if not 0 <= arguments.draw < 2**32:
        raise InputError(f"--draw {arguments.draw}: a whole number from 0 to {2**32 - 1}")
    out, knobs = Path(arguments.out), [read_knob(text) for text in arguments.ranges]
    check_apart(out, [arguments.source_path])
    recipe = load_recipe(arguments.recipe, arguments.overrides)
    check_knobs(knobs, arguments.recipe, arguments.overrides)
    measure(arguments.measure)
    with chosen_pool(arguments) if works_apart(arguments) else nullcontext() as pool, progress() as tell:
        made = prepare_once(request_of(arguments), out / "corpus", recipe, progress=tell)
        about = Search(arguments.recipe, out.resolve(), made.manifest.digest, arguments.measure)
        found = tune(
            load_corpus(out / "corpus"),
            arguments.recipe,
            knobs,
            out,
            digest=made.manifest.digest,
            overrides=arguments.overrides,
            trials=arguments.trials,
            measure=arguments.measure,
            seed=arguments.draw,
            progress=tell,
            judge=None if pool is None else by_workers(pool, out / "corpus", about),
            at_once=arguments.workers or AT_ONCE,
        )
    print_table(["knob", "value"], [change.split("=", 1) for change in found.best])
    say(f"{arguments.measure} of the choosing notes: {found.value:.4f}, the best of {found.trials:,} sets of knobs")
    say(f"recipe: {out / 'best.toml'}; measure it on notes that chose nothing (plant run --report)")
