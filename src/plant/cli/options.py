"""Options that several verbs share."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from plant.errors import InputError, quoted_path
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Recipe
from plant.store.remote import address_of, is_remote

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from plant.cluster.pool import Pool


def add_recipe_options(parser: argparse.ArgumentParser, *, default: str = "plant", named: bool = True) -> None:
    """`--recipe` and `--set`; the second alone where the recipe is named otherwise."""
    if named:
        parser.add_argument("--recipe", default=default, help=f"name or .toml file (default: {default})")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="change one knob of the recipe; may be repeated")  # fmt: skip


def chosen_recipe(arguments: argparse.Namespace) -> Recipe:
    """The recipe that the options name, with its overrides."""
    return load_recipe(arguments.recipe, arguments.overrides)


def add_device_option(parser: argparse.ArgumentParser) -> None:
    """`--device`."""
    parser.add_argument("--device", default="", help="cpu or cuda (default: cuda where there is one)")


def chosen_device(arguments: argparse.Namespace) -> str:
    """The device that the option names, if this machine has it."""
    import torch

    device: str = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch raises either, with pages of advice
        raise InputError(f"--device {device}: torch finds no such device here; leave the option out") from error
    return device


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """`--fit`, `--choose` and `--report`."""
    parser.add_argument("--fit", default="", metavar="SPLITS", help="splits to fit on (default: train)")
    parser.add_argument("--choose", default="", metavar="SPLITS|SHARE",
                        help="splits, or a share of the fitted notes, for thresholds, early stopping and choices "
                        "(default: the dev split if there is one, else 0.1)")  # fmt: skip
    parser.add_argument("--report", default="", metavar="SPLITS", help="splits to report (default: test, if any)")


def check_source(name: str) -> None:
    """Refuse notes that are not there, before anything heavy is imported."""
    if is_remote(name):
        raise InputError(f"{address_of(name)}: this command reads notes of this machine, copy them here")
    if name != "demo" and not Path(name).exists():
        raise InputError(f"there is no file or folder {quoted_path(Path(name))!r} ('demo' is the embedded corpus)")


def add_pool_options(parser: argparse.ArgumentParser) -> None:
    """`--workers` and `--cluster`: where work runs, which changes no result."""
    parser.add_argument("--workers", type=int, metavar="N",
                        help="work in so many processes: of this machine, or of the cluster")  # fmt: skip
    parser.add_argument("--cluster", default="", metavar="ADDRESS",
                        help="work on the machines of a Ray cluster: auto (the one that runs here), host:port or "
                        "ray://host:port; by itself $PLANT_CLUSTER")  # fmt: skip


def works_apart(arguments: argparse.Namespace) -> bool:
    """Whether somebody asked for other processes than this one; the environment alone asks for none."""
    return arguments.workers is not None or bool(arguments.cluster)


def chosen_pool(arguments: argparse.Namespace) -> "AbstractContextManager[Pool]":
    """The pool that the options name, or the environment; without both, this process."""
    from plant.cluster.pool import pool_of

    return pool_of(arguments.cluster or os.environ.get("PLANT_CLUSTER", ""), workers=arguments.workers)
