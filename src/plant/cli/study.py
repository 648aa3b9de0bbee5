"""`plant study`: many recipes on the same splits, one table."""

import argparse
from pathlib import Path

from plant.cli.console import print_table, say
from plant.cli.options import add_plan_options
from plant.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", nargs="?", default="baselines", help="baselines or planting (default: baselines)")
    parser.add_argument("--corpus", required=True, metavar="SOURCE", help="as SOURCE of `plant run`")
    parser.add_argument("--recipes", default="", metavar="NAME,NAME", help="these instead; the first is the reference")
    parser.add_argument("--seeds", default="1,2,3", help="of each recipe (default: 1,2,3)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="change one knob of all recipes; may be repeated")  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the study")
    add_plan_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from plant.evaluate.compare_tables import header_of, marked_rows, note_of, write_comparison
    from plant.pipeline.study import STUDIES, study

    if arguments.study not in STUDIES:
        raise InputError(f"there is no study {arguments.study!r}; there are {', '.join(STUDIES)}")
    recipes = arguments.recipes.split(",") if arguments.recipes else STUDIES[arguments.study]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    out = Path(arguments.out)
    result = study(recipes, seeds, _passed_on(arguments), out, told=say)
    costs = [[f"{c.minutes:.1f}", f"{c.peak_megabytes:,.0f}", f"{c.parameters:,}"] for c in result.costs.values()]
    rows = [[*row, *cost] for row, cost in zip(marked_rows(result.comparison), costs, strict=True)]
    print_table([*header_of(result.comparison), "minutes", "peak MB", "parameters"], rows)
    print(f"\n{note_of(result.comparison)}")
    say("written: " + ", ".join(map(str, write_comparison(result.comparison, str(out / "table")))))


def _passed_on(arguments: argparse.Namespace) -> list[str]:
    """The arguments of every `plant run`."""
    plan = [("--fit", arguments.fit), ("--choose", arguments.choose), ("--report", arguments.report)]
    passed = [arguments.corpus, *(word for option, value in plan if value for word in (option, value))]
    return passed + [word for override in arguments.overrides for word in ("--set", override)]
