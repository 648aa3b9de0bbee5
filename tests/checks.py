"""Every annotation of the package is checked while the tests run: types, shapes, and that axes of one name agree.

`conftest.py` turns this on before anything of plant is imported. What it cannot see are programs that tests start, and
a class that names itself in its own methods, which is not defined yet when they are.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import isfunction, unwrap
from io import TextIOBase
from typing import Any, TextIO

import numba
from beartype import BeartypeConf, FrozenDict, beartype
from jaxtyping import config, install_import_hook

check = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,  # an int is a float, as for mypy
        is_random=False,  # of a list the first item is looked at, not any: what failed once fails again
        # beartype asks a TextIO for its name and mode, which a StringIO and what pytest puts for stderr have not
        hint_overrides=FrozenDict({TextIO: TextIO | TextIOBase}),
    )
)


def check_annotations(package: str) -> None:
    """Check what is imported of a package from now on."""
    if package in sys.modules:
        raise RuntimeError(f"{package} was imported before its annotations could be checked")
    numba.njit = _of_the_function_itself(numba.njit)
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
