"""`plant recipe`: every knob of a recipe, its value, and where the value comes from."""

import argparse
import json

from plant.cli.console import print_table
from plant.cli.options import add_recipe_options


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show", help="all knobs of a recipe", description="All knobs of a recipe, as they will hold."
    )
    show.add_argument("name", metavar="NAME", help="name of a recipe, or a .toml file")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.add_argument("--changed", action="store_true", help="only knobs that differ from the package's defaults")
    add_recipe_options(show, named=False)


def run(arguments: argparse.Namespace) -> None:
    from plant.recipe.origins import knobs_of

    knobs = knobs_of(arguments.name, arguments.overrides)
    shown = [knob for knob in knobs if knob.origin != "default" or not arguments.changed]
    if arguments.json:
        print(
            json.dumps({knob.key: {"value": knob.value, "origin": knob.origin} for knob in shown}, ensure_ascii=False)
        )
    else:
        print_table(["knob", "value", "from"], [[knob.key, json.dumps(knob.value), knob.origin] for knob in shown])
