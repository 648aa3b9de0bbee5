"""plant compare: systems side by side, with spread over seeds and significance against the first."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from plant.cli.evaluate import (
    FILES_ALONE,
    add_file_options,
    check_draws,
    files_read,
    refuse_options,
    scored_from_file,
    scored_from_run,
)
from plant.errors import InputError, quoted_path
from plant.store.artifact import check_apart

if TYPE_CHECKING:
    from plant.evaluate.scores.scored import Scored


def configure(parser: argparse.ArgumentParser) -> None:
    """Systems, measures, and where to write."""
    parser.add_argument("systems", nargs="+", metavar="[NAME=]PATH",
                        help="runs, or prediction files (with --gold); the first is the reference; paths of one name "
                        "are runs of one system that differ in their seed")  # fmt: skip
    add_file_options(parser)
    parser.add_argument("--measure", action="append", dest="measures", metavar="NAME", help="may be repeated")
    parser.add_argument("--rounds", type=int, default=10_000, help="of the randomisation test (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of the test (default: 0)")
    parser.add_argument("--out", metavar="STEM", help="write STEM.tsv, STEM.md and STEM.tex")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Compare, write, print."""
    import json
    from dataclasses import asdict

    from plant.cli.console import print_table, progress, say
    from plant.evaluate.significance.compare import COMPARED, compare
    from plant.evaluate.significance.compare_tables import (
        WRITERS,
        header_of,
        marked_rows,
        note_of,
        write_comparison,
    )

    _check(arguments)
    if arguments.out:
        _check_written(arguments, WRITERS)
    systems = _systems(arguments)
    with progress() as tell:
        comparison = compare(systems, measures=arguments.measures or COMPARED, rounds=arguments.rounds,
                             seed=arguments.seed, progress=tell)  # fmt: skip
    if arguments.out:
        say("written: " + ", ".join(map(str, write_comparison(comparison, arguments.out))))
    if arguments.json:
        print(json.dumps(asdict(comparison), indent=2, ensure_ascii=False))
    else:
        print_table(header_of(comparison), list(marked_rows(comparison)))
        print(f"\n{note_of(comparison)}")


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be drawn, and what runs, which have their own codes and thresholds, would not obey."""
    check_draws(arguments)
    are_runs = [Path(_named(given)[1]).is_dir() for given in arguments.systems]
    if any(are_runs):
        refuse_options(arguments, ("threshold",), FILES_ALONE)
    if all(are_runs):
        refuse_options(arguments, ("gold", "train", "codebook"), FILES_ALONE)


def _check_written(arguments: argparse.Namespace, suffixes: Iterable[str]) -> None:
    """Refuse to write the tables over a file that is compared, or under no name."""
    if not Path(arguments.out).name:
        raise InputError(f"--out {quoted_path(arguments.out)}: the tables need a name, such as tables/all")
    for suffix in suffixes:
        paths = [_named(given)[1] for given in arguments.systems]
        check_apart(f"{arguments.out}{suffix}", [*files_read(arguments), *filter(os.path.isfile, paths)])


def _systems(arguments: argparse.Namespace) -> dict[str, list["Scored"]]:
    """Runs by the name of their system, in the order given."""
    systems: dict[str, list[Scored]] = {}
    for given in arguments.systems:
        name, path = _named(given)
        scored = scored_from_run(Path(path)) if Path(path).is_dir() else _from_file(arguments, path, name)
        systems.setdefault(name or scored.frame.system or Path(path).name, []).append(scored)
    if len(systems) < 2:
        raise InputError("one system is no comparison: name at least two, such as plant=RUN1 laat=RUN2")
    return systems


def _named(given: str) -> tuple[str, str]:
    name, sign, path = given.partition("=")
    return (name, path) if sign and not Path(given).exists() else ("", given)


def _from_file(arguments: argparse.Namespace, path: str, name: str) -> "Scored":
    if not arguments.gold:
        raise InputError(f"{path} is no run folder: to compare prediction files, give --gold")
    return scored_from_file(arguments, path, name)
