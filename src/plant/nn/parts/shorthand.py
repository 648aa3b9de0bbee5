"""What a recipe may write shorter: a decoder with a table `interaction` is the base of a decoder `joined`."""

from collections.abc import Mapping
from typing import Any

from plant.nn.decoders.joined import Join
from plant.nn.parts.table import DECODERS
from plant.recipe.schema import Part
from plant.values import checked

SHORT, LONG = "interaction", "joined"


def short_options(kind: str, name: str) -> dict[str, Any]:
    """The options that any part of a kind takes besides its own, with their types."""
    return {SHORT: Mapping} if kind == DECODERS.kind and name not in (SHORT, LONG) else {}


def spelled_out(decoder: Part) -> Part:
    """The decoder without shorthand; `join` then stands beside the two decoders that are joined."""
    if SHORT not in decoder.options or not short_options(DECODERS.kind, decoder.name):
        return decoder
    own = {option: value for option, value in decoder.options.items() if option != SHORT}
    matching = checked(Mapping, decoder.options[SHORT], name=f"{DECODERS.kind}.{SHORT}")
    DECODERS.check(decoder.name, own)
    DECODERS.check(SHORT, matching, at=f"{DECODERS.kind}.{SHORT}", also={"join": Join})
    join = {"join": matching.pop("join")} if "join" in matching else {}
    return Part(LONG, {**join, "base": {"name": decoder.name, **own}, SHORT: matching})
