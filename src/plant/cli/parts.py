"""`plant parts`: recipes, encoders, decoders, losses and explainers, with their options."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from plant.cli.console import print_table

if TYPE_CHECKING:
    from plant.recipe.schema import Recipe
    from plant.registry import Registry


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--options", action="store_true", help="print the options of each part with their defaults")


def run(arguments: argparse.Namespace) -> None:
    from plant.explain.table import EXPLAINERS
    from plant.nn.parts.table import DECODERS, ENCODERS, LOSSES
    from plant.recipe.reading import load_recipe, named_recipes

    tables: dict[str, Registry[Any]] = {"encoders": ENCODERS, "decoders": DECODERS, "losses": LOSSES}
    if arguments.json:
        parts = {name: sorted(table.builders) for name, table in tables.items()}
        print(json.dumps({"recipes": list(named_recipes()), **parts, "explainers": sorted(EXPLAINERS)}))
        return
    recipes = [(name, load_recipe(name)) for name in named_recipes()]
    print_table(["recipe", "encoder", "decoder", "loss"], [_row(name, recipe) for name, recipe in recipes])
    for name, table in tables.items():
        print(f"\n{name}: {', '.join(sorted(table.builders))}")
        if arguments.options:
            for part in sorted(table.builders):
                print(f"  {part}: " + ", ".join(f"{key} = {value!r}" for key, value in table.options(part).items()))
    print(f"\nexplainers: {', '.join(EXPLAINERS)}")


def _row(name: str, recipe: "Recipe") -> list[str]:
    if recipe.system == "members":
        return [name, " + ".join(recipe.members), "", ""]
    if recipe.system != "classifier":
        return [name, recipe.system, "", ""]
    return [name, recipe.encoder.name, recipe.decoder.name, recipe.loss.name]
