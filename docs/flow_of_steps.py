"""Draw the walk of the data from the declared steps into docs/flow.md; `--check` only says whether it is up to date."""

import sys
from pathlib import Path

from plant.recipe.reading import load_recipe, named_recipes
from plant.recipe.schema import Recipe
from plant.steps.fit import every_step
from plant.steps.predict import PREDICT
from plant.steps.step import EVERYTHING, Step
from plant.systems.members import member_recipes

PAGE = Path(__file__).parent / "flow.md"
BEGIN, END = "<!-- steps: drawn by docs/flow_of_steps.py -->", "<!-- end of steps -->"


def recipes() -> list[Recipe]:
    """Every packaged recipe, and those of their members."""
    loaded = [load_recipe(name) for name in named_recipes()]
    return [*loaded, *(member for recipe in loaded if recipe.members for member in member_recipes(recipe))]


def needs_of(step: Step) -> dict[str, bool]:
    """What a step needs, by name, and whether every recipe that takes the step needs it."""
    taking = [recipe for recipe in recipes() if step.name not in ("transformer",) or recipe.encoder.name == step.name]
    taking = [recipe for recipe in taking if step.name != "model" or not recipe.members]
    found = [[need.rpartition("/")[2] for need in step.needs(recipe)] for recipe in taking]
    every = dict.fromkeys(need for needs in found for need in needs)
    return {need: all(need in needs for needs in found) for need in every}


def row(step: Step) -> str:
    """A step as a row of the table; what only some recipes need stands in brackets."""
    needs = ", ".join(f"`{need}`" if always else f"(`{need}`)" for need, always in needs_of(step).items())
    sections = "all" if step.sections == EVERYTHING else ", ".join(f"`{section}`" for section in step.sections)
    kept = f"`{(step.folder or step.name)}`" if step.kind else ""
    return f"| `{step.name}` | {needs} | {sections} | {kept} |"


def drawn() -> str:
    """The table of all steps."""
    rows = [row(step) for step in (*every_step(), PREDICT)]
    return "\n".join(
        [BEGIN, "", "| step | needs | sections of the recipe | kept as |", "|---|---|---|---|", *rows, "", END]
    )


def updated(page: str) -> str:
    """The page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    return before + drawn() + rest.partition(END)[2]


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    if "--check" not in sys.argv:
        PAGE.write_text(updated(text), encoding="utf-8")
    sys.exit("docs/flow.md is not up to date" if "--check" in sys.argv and updated(text) != text else 0)
