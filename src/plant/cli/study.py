"""`plant study`: many recipes on the same splits, one table."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.cli.console import print_table, say
from plant.cli.options import add_plan_options, add_pool_options, check_source, chosen_pool, works_apart
from plant.cli.prepare import add_source_options, source_options
from plant.errors import InputError, quoted_path
from plant.store.artifact import check_apart
from plant.store.temporary import check_here

if TYPE_CHECKING:
    from plant.cluster.pool import Pool
    from plant.studies.fittings import Notes


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", nargs="?", default="baselines",
                        help="baselines (the default) or planting: recipes in one table; or a claim of the papers: "
                        "low-shot, overfit, ablation, rare, tokens, case-study, leak")  # fmt: skip
    parser.add_argument("--corpus", required=True, metavar="SOURCE", help="as SOURCE of `plant run`")
    parser.add_argument("--recipes", metavar="NAME,NAME",
                        help="these instead; the first is the reference (without a GPU, the study takes the -small "
                        "recipes of published systems)")  # fmt: skip
    parser.add_argument("--seeds", default="1,2,3", help="of each recipe (default: 1,2,3)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="change one knob of all recipes; may be repeated")  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR",
                        help="folder of the study; called again, it goes on, and fits anew what changed")  # fmt: skip
    parser.add_argument("--keep", metavar="FOLDER",
                        help="put a small file there for each run that ends, from which the study goes on where "
                        "its runs are gone, as on another machine")  # fmt: skip
    parser.add_argument("--so-far", action="store_true",
                        help="fit nothing: the table of the runs that are there")  # fmt: skip
    parser.add_argument("--quick", action="store_true",
                        help="in a size that shows whether it runs, and nothing else: tiny, one seed")  # fmt: skip
    add_source_options(parser)
    add_plan_options(parser)
    add_pool_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from plant.recipe.reading import load_recipe

    check_source(arguments.corpus)
    for written in filter(None, (arguments.out, arguments.keep)):
        check_apart(written, [arguments.corpus])
        check_here(Path(written))
    check_notes(_notes(arguments))
    for name in _named(arguments.recipes) if arguments.recipes else ():
        load_recipe(name)  # what is wrong is told before torch is there
    from plant.studies.claims import CLAIMS

    if arguments.study in CLAIMS:
        _study_claim(arguments)
    else:
        _study_recipes(arguments)


def check_notes(notes: "Notes") -> None:
    """Refuse a source whose first note cannot be read: every run of the study would, in a process of its own."""
    if next(iter(notes.open().notes()), None) is None:
        raise InputError(f"{quoted_path(notes.source)} holds no notes")


def _study_claim(arguments: argparse.Namespace) -> None:
    from plant.studies.claims import CLAIMS, Settings
    from plant.studies.page import write_findings
    from plant.studies.prove import prove

    out, claim = Path(arguments.out), CLAIMS[arguments.study]
    with _pool_beside(arguments, out) as pool:
        findings = prove(
            claim,
            Settings(quick=arguments.quick, recipes=_named(arguments.recipes) if arguments.recipes else ()),
            _seeds(arguments.seeds),
            _notes(arguments),
            out,
            overrides=arguments.overrides,
            say=say,
            pool=pool,
            keep=_kept(arguments),
            so_far=arguments.so_far,
        )
    print_table(findings.header, list(findings.table()))
    for line in findings.said:
        print(line)
    say("written: " + ", ".join(map(str, write_findings(findings, out))))
    if findings.failed and not arguments.so_far:
        raise InputError(f"not in the table, since they failed: {'; '.join(findings.failed)}")


def _study_recipes(arguments: argparse.Namespace) -> None:
    from plant.studies.fittings import QUICK
    from plant.studies.study import study
    from plant.studies.tables import header, notes, rows, write_study

    out, recipes, seeds = Path(arguments.out), _recipes(arguments), _seeds(arguments.seeds)
    quick = QUICK if arguments.quick else ()
    with _pool_beside(arguments, out) as pool:
        options: dict[str, Any] = {"overrides": [*quick, *arguments.overrides], "say": say, "pool": pool}
        options |= {"keep": _kept(arguments), "so_far": arguments.so_far}
        seeds = seeds[:1] if arguments.quick else seeds
        result = study(recipes, seeds, _notes(arguments), out, **options)
    print_table(header(result), list(rows(result)))
    print(f"\n{notes(result)}")
    say("written: " + ", ".join(map(str, write_study(result, out / "table"))))
    if result.failed and not arguments.so_far:
        raise InputError(f"not in the table, since they failed: {'; '.join(result.failed)}")


@contextmanager
def _pool_beside(arguments: argparse.Namespace, out: Path) -> Iterator["Pool | None"]:
    """Where runs are fitted side by side; None where they follow each other."""
    if arguments.so_far or not works_apart(arguments):
        yield None
        return
    with chosen_pool(arguments) as pool:
        pool.check_sees(out)
        yield pool


def _kept(arguments: argparse.Namespace) -> Path | None:
    return Path(arguments.keep) if arguments.keep else None


def _recipes(arguments: argparse.Namespace) -> tuple[str, ...]:
    from plant.studies.study import QUICK_RECIPES, recipes_of

    if arguments.recipes is not None:
        return _named(arguments.recipes)
    if arguments.quick and recipes_of(arguments.study, gpu=False):  # or there is no such study
        return QUICK_RECIPES
    import torch

    return recipes_of(arguments.study, gpu=torch.cuda.is_available())


def _named(recipes: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in recipes.split(","))
    if not all(names):
        raise InputError(f"--recipes {recipes!r} lacks a name: give them as NAME,NAME")
    return names


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise InputError(f"cannot read --seeds {text!r}: give whole numbers, such as 1,2,3") from None


def _notes(arguments: argparse.Namespace) -> "Notes":
    """What every `plant run` reads, and which notes are for what."""
    from plant.studies.fittings import Notes

    splits = "" if arguments.make_splits == "random" else arguments.make_splits
    plan = [("--fit", arguments.fit), ("--choose", arguments.choose), ("--report", arguments.report),
            ("--make-splits", splits)]  # fmt: skip
    options = [word for option, value in plan if value for word in (option, value)]
    return Notes(arguments.corpus, tuple(options), source_options(arguments))
