"""A digest of the constants of modules: what was made by others is made anew."""

import pkgutil
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module, resources
from types import ModuleType
from typing import Any

import numpy as np

from plant.store.keeper import digest_of

OPTIONS = "Options"  # how the names of dataclasses end whose defaults are constants too


@cache
def digest_of_constants(*modules: str) -> str:
    """One number for the constants of modules, by their names, and for the defaults of their options."""
    return digest_of({name: constants_of(import_module(name)) for name in modules})


def constants_of(module: ModuleType) -> dict[str, Any]:
    """The constants of a module as plain data."""
    found = {name: value for name, value in vars(module).items() if name.isupper()}
    kinds = {name: kind for name, kind in vars(module).items() if name.endswith(OPTIONS) and isinstance(kind, type)}
    options = {name: kind() for name, kind in kinds.items() if is_dataclass(kind)}
    return {name: _plain(value) for name, value in {**found, **options}.items()}


def modules_of(package: str, *, without: Iterable[str] = ()) -> tuple[str, ...]:
    """The modules of a package, those of some names left out."""
    names = [module.name for module in pkgutil.iter_modules(import_module(package).__path__)]
    return tuple(f"{package}.{name}" for name in sorted(set(names).difference(without)))


@cache
def digest_of_data(package: str, ending: str) -> str:
    """One number for the data files of a package."""
    files = [file for file in resources.files(package).iterdir() if file.name.endswith(ending)]
    return digest_of({file.name: file.read_text(encoding="utf-8") for file in files})


def _plain(value: Any) -> Any:
    """Values that can be told apart after a restart; of anything else, such as a function, its name."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, re.Pattern):
        return [value.pattern, int(value.flags)]
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(own)] for key, own in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return [[field.name, _plain(getattr(value, field.name))] for field in fields(value)]
    return getattr(value, "__qualname__", type(value).__name__)
