"""Recipes from strict TOML: packaged or the user's own, extended by one another, changed by overrides."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import reduce
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from plant.errors import RecipeError, quoted, unknown
from plant.recipe.schema import PARTS, WITHOUT_PARTS, Part, Recipe
from plant.values import checked

Section = TypeVar("Section")


def named_recipes() -> tuple[str, ...]:
    """The recipes that come with the package."""
    files = resources.files("plant.recipes").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def load_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """A packaged recipe by name or a TOML file by path, changed by `a.b=value` overrides.

    >>> load_recipe("caml", ["fit.epochs=3"]).fit.epochs
    3
    """
    table, changes, where = _table(name), tuple(overrides), f"recipe {name!r}"
    changed = _changed(table, changes)
    if changed.get("members"):
        _check_idle(table, changed["members"], where=where)
        changed = {key: value for key, value in changed.items() if key not in PARTS}
    return recipe_from({**changed, **_for_members(changed, (*_own_changes(table, where=where), *changes))}, where=where)


def change_recipe(recipe: Recipe, overrides: Iterable[str]) -> Recipe:
    """A recipe changed by `a.b=value` overrides, and checked as one from a file is."""
    changes = tuple(overrides)
    changed = _changed(recipe_table(recipe), changes)
    return recipe_from({**changed, **_for_members(changed, (*recipe.changes, *changes))}, where="the recipe")


def recipe_from(table: Mapping[str, Any], *, where: str) -> Recipe:
    """A recipe from a nested table; `where` is named in errors."""
    if table.get("members"):
        table = {"system": "members", **table}
        if table["system"] != "members":
            raise RecipeError(f"{where}: members are no part of system {quoted(table['system'])}: drop one of the two")
    for part in PARTS:
        options = table.get(part)
        if table.get("system") in WITHOUT_PARTS and isinstance(options, Mapping) and "name" not in options:
            raise RecipeError(f"{where}: system {table['system']!r} has no {part}: there is nothing to set in it")
    return _section(Recipe, table, where=where, path="")


def recipe_layers(name: str) -> list[tuple[str, dict[str, Any]]]:
    """A recipe's own keys and those of what it extends, each with its name, the furthest first."""
    table = _read(name)
    base = table.pop("extends", None)
    return [*(recipe_layers(_beside(name, base)) if isinstance(base, str) else []), (name, table)]


def set_key(override: str) -> str:
    """The key of an `a.b=value` override."""
    return _key(override)


def recipe_table(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain nested tables, for manifests."""
    return asdict(recipe)


def _changed(table: dict[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    return reduce(_overridden, changes, table)


def _own_changes(table: Mapping[str, Any], *, where: str) -> tuple[str, ...]:
    """The changes to its members that a file itself asks for."""
    changes = table.get("changes", [])
    if changes and not table.get("members"):
        raise RecipeError(f"{where}: changes are those of members, and it has none: write them in their sections")
    return tuple(checked(tuple[str, ...], changes, name="changes", where=f"{where}: "))


def _for_members(table: Mapping[str, Any], changes: tuple[str, ...]) -> dict[str, Any]:
    """The changes that the members get too: all but those that say what the members are."""
    passed = tuple(change for change in changes if _key(change) not in ("system", "members"))
    return {"changes": passed} if table.get("members") else {}


def _check_idle(table: Mapping[str, Any], members: Any, *, where: str) -> None:
    """An error for a section of a file that would count for nothing, because the members bring their own."""
    sections = {section.name for section in fields(Recipe)} - {"system", "members", "changes", "seed"}
    idle = [key for key in table if key in sections - {"prepare", "choose"}]
    if idle:
        raise RecipeError(
            f"{where} is made of members ({_listed(members)}), so its own [{idle[0]}] counts for nothing: "
            "write it in the recipe of a member, or set it for all of them by an override"
        )


def _listed(names: Any) -> str:
    listed = names if isinstance(names, list | tuple) else [names]
    return ", ".join(quoted(name).strip("'") for name in listed)


def _table(name: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The recipe's own keys over those of the recipe it `extends`; `above` are those that extend this one."""
    if _identity(name) in map(_identity, above):
        raise RecipeError(f"recipe {name!r} extends itself: {' -> '.join((*above, name))}")
    table = _read(name)
    base = table.pop("extends", None)
    if base is None:
        return table
    if not isinstance(base, str):
        wanted = "a recipe's name or the path of a .toml file"
        raise RecipeError(f"recipe {name!r}: extends must be {wanted}, not {quoted(base)}")
    return _merged(_table(_beside(name, base), (*above, name)), table)


def _identity(name: str) -> str:
    return str(Path(name).resolve()) if name.endswith(".toml") else name


def _beside(name: str, base: str) -> str:
    """The base of a recipe file: a file is looked for beside it first, then from where we are."""
    near = Path(name).parent / base
    return str(near) if name.endswith(".toml") and base.endswith(".toml") and near.is_file() else base


def _read(name: str) -> dict[str, Any]:
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise RecipeError(f"no recipe file {name!r}")
        text = _text(path)
    elif name in named_recipes():
        text = resources.files("plant.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise RecipeError(unknown("recipe", name, named_recipes()) + " (or give the path of a .toml file)")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"recipe {name!r} is not valid TOML: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError(f"recipe {str(path)!r} is not UTF-8: save it as such") from error
    except OSError as error:
        raise RecipeError(f"recipe {str(path)!r} cannot be read: {error.strerror}") from error


def _merged(base: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The base with some keys changed; another part (by name) brings its own options and keeps none of the old."""
    if "name" in change and change["name"] != base.get("name"):
        return dict(change)
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _overridden(table: dict[str, Any], override: str) -> dict[str, Any]:
    """The table with one `a.b=value` set; the value is TOML, or a bare string where it is no TOML."""
    key, sign, value = override.partition("=")
    if not sign or not key.strip():
        raise RecipeError(f"cannot read {quoted(override)}: overrides look like section.key=value")
    nested: Any = _toml_value(value)
    for part in reversed(key.strip().split(".")):
        nested = {part: nested}
    return _merged(table, nested)


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def _section(kind: type[Section], table: Any, *, where: str, path: str) -> Section:
    if not isinstance(table, Mapping):
        raise RecipeError(f"{where}: {path or 'the recipe'} must be a table, not {quoted(table)}")
    if kind is Part:
        return _part(table, where=where, path=path)  # type: ignore[return-value]
    hints = get_type_hints(kind, include_extras=True)
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise RecipeError(f"{where}: {unknown('key', _join(path, key), [_join(path, name) for name in known])}")
    values = {key: _value(hints[key], value, where=where, path=_join(path, key)) for key, value in table.items()}
    return kind(**values)


def _part(table: Mapping[str, Any], *, where: str, path: str) -> Part:
    """A part from `name` and its options, which stand beside the name in a file."""
    options = {key: value for key, value in table.items() if key not in ("name", "options")}
    if not isinstance(table.get("name"), str):
        raise RecipeError(f'{where}: {path} needs a name, such as {path}.name = "{PARTS[path]}"')
    listed = checked(Mapping, table.get("options", {}), name=f"{path}.options", where=f"{where}: ")
    return Part(table["name"], {**listed, **options})


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _value(kind: Any, value: Any, *, where: str, path: str) -> Any:
    if is_dataclass(kind):
        return _section(kind, value, where=where, path=path)  # type: ignore[arg-type]
    return checked(kind, value, name=path, where=f"{where}: ")
