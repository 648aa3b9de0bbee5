"""Named builders that are given just what their signatures ask for."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from plant.errors import RecipeError, unknown

Built = TypeVar("Built")


@dataclass(frozen=True)
class Registry(Generic[Built]):
    """Builders of one kind by name; what a builder needs, it names as a parameter."""

    kind: str
    builders: Mapping[str, Callable[..., Built]]

    def options(self, name: str, *, given: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The parameters of a builder that a recipe may set, with their defaults."""
        parameters = inspect.signature(self._builder(name)).parameters.values()
        return {p.name: p.default for p in parameters if p.name not in given and p.default is not p.empty}

    def build(self, name: str, options: Mapping[str, Any], **given: Any) -> Built:
        """Call the builder with its options and with those of `given` that its signature names."""
        builder = self._builder(name)
        parameters = inspect.signature(builder).parameters
        for option in options:
            if option not in parameters or option in given:
                known = self.options(name, given=frozenset(given))
                raise RecipeError(unknown(f"option of {self.kind} {name!r}:", option, known))
        missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in {*given, *options}]
        if missing:
            raise RecipeError(f"{self.kind} {name!r} needs {', '.join(missing)}, which this recipe does not give it")
        return builder(**{key: value for key, value in given.items() if key in parameters}, **options)

    def _builder(self, name: str) -> Callable[..., Built]:
        if name not in self.builders:
            raise RecipeError(unknown(self.kind, name, self.builders))
        return self.builders[name]
