"""Every annotation of the package is checked while the tests run: types, shapes, and that axes of one name agree.

`conftest.py` turns this on before anything of plant is imported. What it cannot see are programs that tests start, and
a class that names itself in its own methods, which is not defined yet when they are. Jaxtyping says what is decorated
and what an axis is; its own decorator looks at every argument twice and binds every call to its signature, which took
half the time of all tests. Here beartype checks a call once, where axes are named in a context of the call's own.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import partial, wraps
from inspect import isclass, isfunction, unwrap
from io import TextIOBase
from types import CodeType, FunctionType
from typing import Any, ForwardRef, TextIO, get_args, get_type_hints

import jaxtyping
import numba
from beartype import BeartypeConf, FrozenDict, beartype
from jaxtyping import AbstractArray, TypeCheckError, config, install_import_hook, jaxtyped

check = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,  # an int is a float, as for mypy
        is_random=False,  # of a list the first item is looked at, not any: what failed once fails again
        # beartype asks a TextIO for its name and mode, which a StringIO and what pytest puts for stderr have not
        hint_overrides=FrozenDict({TextIO: TextIO | TextIOBase}),
        violation_type=TypeCheckError,
    )
)
CHECKED = "__beartype_func"  # what beartype's wrapper calls the function that it calls


def check_annotations(package: str) -> None:
    """Check what is imported of a package from now on."""
    if package in sys.modules:
        raise RuntimeError(f"{package} was imported before its annotations could be checked")
    numba.njit = _of_the_function_itself(numba.njit)
    jaxtyping.jaxtyped = _decorator({})
    install_import_hook(package, "tests.checks.check")


@contextmanager
def without_checks() -> Iterator[None]:
    """As where plant is used: nothing checks."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)


def _of_the_function_itself(njit: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator for functions wrapped into checks: it compiles bytecode, so it takes what is inside."""

    def decorate(function: Any = None, **options: Any) -> Any:
        if function is None:
            return partial(decorate, **options)
        return njit(unwrap(function) if isfunction(function) else function, **options)

    return decorate


def _decorator(made: dict[CodeType, FunctionType]) -> Callable[..., Any]:
    """What jaxtyping's import hook puts on every function and class; `made` keeps the checks of inner functions."""

    def decorate(thing: Any = None, *, typechecker: Callable[..., Any]) -> Any:
        if thing is None:
            return partial(decorate, typechecker=typechecker)
        if isfunction(thing):
            return _checked(thing, made)
        if is_dataclass(thing) and isfunction(thing.__init__) and not hasattr(thing.__init__, "__wrapped__"):
            thing.__init__ = _checked(thing.__init__, made)
        return thing

    return decorate


def _checked(function: FunctionType, made: dict[CodeType, FunctionType]) -> Callable[..., Any]:
    """The function, its arguments and what it returns checked unless checks are off.

    What checks is made with the first call: most of the package is not called by most files of tests.
    """
    types, checked = _known_types(function), None

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal checked
        if config.jaxtyping_disable:
            return function(*arguments, **named)
        checked = checked or _checks_of(function, types, made)
        return checked(*arguments, **named)

    @wraps(function)
    def called_with_axes(*arguments: Any, **named: Any) -> Any:
        with jaxtyped("context"):
            return called(*arguments, **named)

    return called_with_axes if any(map(_names_axes, types.values())) else called


def _checks_of(function: FunctionType, types: dict[str, Any], made: dict[CodeType, FunctionType]) -> Callable[..., Any]:
    """Those of an inner function, which is defined again with every call of the outer one, are made but once."""
    if "<locals>" not in function.__qualname__:
        return _of(function, types)
    checked = made.get(function.__code__) or made.setdefault(function.__code__, _of(function, types))
    if CHECKED not in (checked.__kwdefaults__ or {}):  # nothing is annotated, so that nothing was wrapped
        return function
    return _copy(checked, checked.__annotations__, {**checked.__kwdefaults__, CHECKED: function})


def _of(function: FunctionType, types: dict[str, Any]) -> FunctionType:
    return check(_copy(function, types, function.__kwdefaults__))


def _copy(function: FunctionType, types: dict[str, Any], defaults: dict[str, Any] | None) -> FunctionType:
    """The same function with other annotations and other defaults of what is named."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__annotations__, copy.__kwdefaults__ = types, defaults
    return copy


def _known_types(function: FunctionType) -> dict[str, Any]:
    """Annotations as types where they can be found, and otherwise as anything."""
    return {name: _known_type(hint, function.__globals__) for name, hint in function.__annotations__.items()}


def _known_type(hint: Any, names: dict[str, Any]) -> Any:
    if not any(isinstance(part, str | ForwardRef) for part in _parts(hint)):
        return hint
    holder = _copy(_known_type, {"value": hint}, None)
    try:
        return get_type_hints(holder, names, include_extras=True)["value"]
    except (NameError, TypeError):  # the class itself, a name that is imported for type checkers alone, array[int]
        return Any


def _names_axes(hint: Any) -> bool:
    return any(isclass(part) and issubclass(part, AbstractArray) for part in _parts(hint))


def _parts(hint: Any) -> Iterator[Any]:
    """A hint and all that stands in its brackets."""
    yield hint
    for part in hint if isinstance(hint, list) else get_args(hint):
        yield from _parts(part)
