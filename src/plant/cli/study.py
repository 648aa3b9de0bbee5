"""`plant study`: many recipes on the same splits, one table."""

import argparse
from pathlib import Path

from plant.cli.console import print_table, say
from plant.cli.options import add_plan_options
from plant.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", nargs="?", default="baselines", help="baselines or planting (default: baselines)")
    parser.add_argument("--corpus", required=True, metavar="SOURCE", help="as SOURCE of `plant run`")
    parser.add_argument("--recipes", metavar="NAME,NAME",
                        help="these instead; the first is the reference (without a GPU, the study takes the -small "
                        "recipes of published systems)")  # fmt: skip
    parser.add_argument("--seeds", default="1,2,3", help="of each recipe (default: 1,2,3)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="change one knob of all recipes; may be repeated")  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR",
                        help="folder of the study; called again, it goes on, and fits anew what changed")  # fmt: skip
    add_plan_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from plant.studies.study import study
    from plant.studies.tables import header, notes, rows, write_study

    out = Path(arguments.out)
    result = study(
        _recipes(arguments),
        _seeds(arguments.seeds),
        arguments.corpus,
        _plan(arguments),
        out,
        overrides=arguments.overrides,
        say=say,
    )
    print_table(header(result), list(rows(result)))
    print(f"\n{notes(result)}")
    say("written: " + ", ".join(map(str, write_study(result, out / "table"))))
    if result.failed:
        raise InputError(f"not in the table, since they failed: {'; '.join(result.failed)}")


def _recipes(arguments: argparse.Namespace) -> tuple[str, ...]:
    from plant.studies.study import recipes_of

    if arguments.recipes is not None:
        names = tuple(name.strip() for name in arguments.recipes.split(","))
        if not all(names):
            raise InputError(f"--recipes {arguments.recipes!r} lacks a name: give them as NAME,NAME")
        return names
    import torch

    return recipes_of(arguments.study, gpu=torch.cuda.is_available())


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise InputError(f"cannot read --seeds {text!r}: give whole numbers, such as 1,2,3") from None


def _plan(arguments: argparse.Namespace) -> list[str]:
    """The options of every `plant run`."""
    plan = [("--fit", arguments.fit), ("--choose", arguments.choose), ("--report", arguments.report)]
    return [word for option, value in plan if value for word in (option, value)]
