"""Named builders that are given just what their signatures ask for."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from plant.errors import RecipeError, unknown
from plant.values import checked, settable

Built = TypeVar("Built")


@dataclass(frozen=True)
class Registry(Generic[Built]):
    """Builders of one kind by name; what a builder needs, it names as a parameter."""

    kind: str
    builders: Mapping[str, Callable[..., Built]]

    def options(self, name: str, *, given: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The parameters of a builder that need not be given, with their defaults."""
        parameters = inspect.signature(self._builder(name)).parameters.values()
        return {p.name: p.default for p in parameters if p.name not in given and p.default is not p.empty}

    def kinds(self, name: str) -> dict[str, Any]:
        """The options of a builder that a recipe may set, with their types; tensors and models are given instead."""
        parameters = inspect.signature(self._builder(name)).parameters.values()
        return {p.name: p.annotation for p in parameters if p.default is not p.empty and settable(p.annotation)}

    def check(
        self, name: str, options: Mapping[str, Any], *, at: str = "", also: Mapping[str, Any] | None = None
    ) -> None:
        """An error for an option that is unknown or has a wrong value; `at` is its section, `also` types of further."""
        kinds = {**self.kinds(name), **(also or {})}
        for option, value in options.items():
            if option not in kinds:
                raise RecipeError(unknown(f"option of {self.kind} {name!r}:", option, kinds))
            checked(kinds[option], value, name=f"{at or self.kind}.{option}")

    def build(self, name: str, options: Mapping[str, Any], **given: Any) -> Built:
        """Call the builder with its options and with those of `given` that its signature names."""
        self.check(name, options)
        builder = self._builder(name)
        parameters = inspect.signature(builder).parameters
        missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in {*given, *options}]
        if missing:
            raise RecipeError(f"{self.kind} {name!r} needs {', '.join(missing)}, which this recipe does not give it")
        return builder(**{key: value for key, value in given.items() if key in parameters}, **options)

    def _builder(self, name: str) -> Callable[..., Built]:
        if name not in self.builders:
            raise RecipeError(unknown(self.kind, name, self.builders))
        return self.builders[name]
