"""Where the value of each knob comes from: the package's defaults, a recipe, one that it extends, or an override."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plant.recipe.reading import load_recipe, recipe_layers, recipe_table, set_key


@dataclass(frozen=True)
class Knob:
    """A knob by its dotted key, its value, and who set it."""

    key: str
    value: Any
    origin: str


def knobs_of(name: str, overrides: Iterable[str] = ()) -> list[Knob]:
    """All knobs of a recipe as they hold, in the order of the schema.

    >>> [knob for knob in knobs_of("caml", ["fit.epochs=3"]) if knob.key == "fit.epochs"]
    [Knob(key='fit.epochs', value=3, origin='--set')]
    """
    changes = tuple(overrides)
    recipe = load_recipe(name, changes)
    layers = [*recipe_layers(name), *(("--set", {set_key(change): None}) for change in changes)]
    setters = {key: origin for origin, table in layers for key, _ in flat(table)}
    return [Knob(key, value, _origin(key, setters)) for key, value in flat(recipe_table(recipe))]


def _origin(key: str, setters: Mapping[str, str]) -> str:
    """Who set a knob itself or the table that it stands in; options of parts stand beside their names in files."""
    plain = key.replace(".options.", ".")
    parts = plain.split(".")
    above = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((setters[place] for place in above if place in setters), "default")


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by their dotted keys."""
    for key, value in table.items():
        place = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{place}.")
        else:
            yield place, value
