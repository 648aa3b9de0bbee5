"""Named builders that are given just what they need, which they say themselves: in their signatures and beside them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from plant.errors import RecipeError, unknown
from plant.values import checked, settable

Built = TypeVar("Built")
Builder = Callable[..., Any]


@runtime_checkable
class DeclaresNeeds(Protocol):
    """A builder that does not always take all that its signature names."""

    def needs(self, options: Mapping[str, Any]) -> frozenset[str]:
        """What it takes with these options."""
        ...


@runtime_checkable
class DeclaresStart(Protocol):
    """A builder that takes some things as first values of its weights only: kept weights do without them."""

    starts_from: frozenset[str]


@runtime_checkable
class DeclaresInner(Protocol):
    """A builder of something made of others of its kind: parameter -> who stands there unless the recipe names one."""

    inner: Mapping[str, str]


@runtime_checkable
class DeclaresAdded(Protocol):
    """A builder that knows what was added after training; all others are given what there was in training."""

    takes_added: bool


@runtime_checkable
class DeclaresTiny(Protocol):
    """A builder that says with which options it is small and quick, for tests."""

    tiny: Mapping[str, Any]


class Chosen(NamedTuple):
    """A builder by name, and its options."""

    name: str
    options: Mapping[str, Any]


class Importable(dict[str, Any]):
    """Things by name, each as the place "module:name" that it is imported from when it is asked for, or itself."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if not isinstance(found, str):
            return found
        module, _, attribute = found.partition(":")
        return getattr(import_module(module), attribute)

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


@dataclass(frozen=True)
class Registry(Generic[Built]):
    """Builders of one kind by name; what a builder needs, it names as a parameter."""

    kind: str
    builders: Mapping[str, Callable[..., Built]]

    def options(self, name: str) -> dict[str, Any]:
        """The options of a builder that a recipe may set, with their defaults; what it is made of as tables."""
        builder = self._builder(name)
        inner = {key: {"name": usual} for key, usual in _inner(builder).items()}
        return {p.name: p.default for p in _parameters(builder) if _is_option(p)} | inner

    def kinds(self, name: str) -> dict[str, Any]:
        """The same options with their types; tensors and models are given instead."""
        builder = self._builder(name)
        own = {p.name: p.annotation for p in _parameters(builder) if _is_option(p)}
        return own | dict.fromkeys(_inner(builder), Mapping)

    def tiny(self, name: str) -> dict[str, Any]:
        """Options with which a builder is small, where it says some."""
        builder = self._builder(name)
        return dict(builder.tiny) if isinstance(builder, DeclaresTiny) else {}

    def needs(self, name: str, options: Mapping[str, Any]) -> frozenset[str]:
        """What a builder, and those that it is made of, take of what is given."""
        return frozenset().union(*(_needs(*part) for part in self._parts(name, options)))

    def keeps(self, name: str, options: Mapping[str, Any]) -> frozenset[str]:
        """Of what is needed, what is more than first values of weights."""
        parts = self._parts(name, options)
        return frozenset().union(*(_needs(builder, own) - _starts(builder) for builder, own in parts))

    def walk(self, name: str, options: Mapping[str, Any]) -> Iterator[Chosen]:
        """A builder with its options, then those that it is made of."""
        yield Chosen(name, options)
        for part in self.inner(name, options).values():
            yield from self.walk(*part)

    def inner(self, name: str, options: Mapping[str, Any], *, at: str = "") -> dict[str, Chosen]:
        """What something is made of, by parameter; a table of options may name another than the usual one."""
        usual, at = _inner(self._builder(name)), at or self.kind
        return {key: _chosen(options.get(key, {}), usual=usual[key], at=f"{at}.{key}") for key in usual}

    def check(
        self, name: str, options: Mapping[str, Any], *, at: str = "", also: Mapping[str, Any] | None = None
    ) -> None:
        """An error for an option that is unknown or has a wrong value; `at` is its section, `also` types of further."""
        kinds, at = {**self.kinds(name), **(also or {})}, at or self.kind
        for option, value in options.items():
            if option not in kinds:
                raise RecipeError(unknown(f"option of {self.kind} {name!r}:", option, kinds))
            checked(kinds[option], value, name=f"{at}.{option}")
        for key, part in self.inner(name, options, at=at).items():
            self.check(*part, at=f"{at}.{key}")

    def build(
        self, name: str, options: Mapping[str, Any], *, added: Mapping[str, Any] | None = None, **given: Any
    ) -> Built:
        """Call the builder with its options, with what it is made of, and with those of `given` that it needs.

        `added` stands above `given` for builders that know what was added after training.
        """
        self.check(name, options)
        builder, parts = self._builder(name), self.inner(name, options)
        own = {option: value for option, value in options.items() if option not in parts}
        own |= {key: self.build(*part, added=added, **given) for key, part in parts.items()}
        offered = given | dict(added or {}) if _takes_added(builder) else given
        missing = [p.name for p in _parameters(builder) if p.default is p.empty and p.name not in {*offered, *own}]
        if missing:
            raise RecipeError(f"{self.kind} {name!r} needs {', '.join(missing)}, which this recipe does not give it")
        return builder(**{key: offered[key] for key in _needs(builder, options) if key in offered}, **own)

    def _parts(self, name: str, options: Mapping[str, Any]) -> list[tuple[Builder, Mapping[str, Any]]]:
        return [(self._builder(part.name), part.options) for part in self.walk(name, options)]

    def _builder(self, name: str) -> Callable[..., Built]:
        if name not in self.builders:
            raise RecipeError(unknown(self.kind, name, self.builders))
        return self.builders[name]


def named_by(builder: Builder) -> frozenset[str]:
    """What a signature asks for: all that is neither an option of a recipe nor something that it is made of."""
    return frozenset(p.name for p in _parameters(builder) if not _is_option(p)).difference(_inner(builder))


def _chosen(table: Any, *, usual: str, at: str) -> Chosen:
    options = dict(checked(Mapping, table, name=at))
    return Chosen(checked(str, options.pop("name", usual), name=f"{at}.name"), options)


def _parameters(builder: Builder) -> list[inspect.Parameter]:
    every = inspect.signature(builder).parameters.values()
    return [p for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]  # a module without a constructor


def _is_option(parameter: inspect.Parameter) -> bool:
    return parameter.default is not parameter.empty and settable(parameter.annotation)


def _needs(builder: Builder, options: Mapping[str, Any]) -> frozenset[str]:
    return builder.needs(options) if isinstance(builder, DeclaresNeeds) else named_by(builder)


def _starts(builder: Builder) -> frozenset[str]:
    return builder.starts_from if isinstance(builder, DeclaresStart) else frozenset()


def _inner(builder: Builder) -> Mapping[str, str]:
    return builder.inner if isinstance(builder, DeclaresInner) else {}


def _takes_added(builder: Builder) -> bool:
    return isinstance(builder, DeclaresAdded) and builder.takes_added
