"""Processes that train one model: where they run, and what each of them is told."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from plant.cli.console import say
from plant.errors import InputError

PLACES = ("--workers", "--cluster")  # options that say where work runs


def is_one_of_many() -> bool:
    """Whether this process was started as one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def address_of(arguments: argparse.Namespace) -> str:
    """The cluster that is asked for; none where neither option is given."""
    if arguments.workers is None and not arguments.cluster:
        return ""
    address = arguments.cluster or os.environ.get("PLANT_CLUSTER", "")
    return "" if address == "local" else address


def start_together(
    arguments: argparse.Namespace, part: Callable[[argparse.Namespace], None], *, most: int, room: Path
) -> None:
    """Let processes of this machine, or of a cluster, each do its part of a verb; at most as many as can share it.

    On a cluster they are done when this returns, and what they made lies in `--out`; `room` is a folder that all nodes
    see, and nothing stays there.
    """
    address = address_of(arguments)
    if not address:
        from plant.cluster.launch import launch

        return launch(arguments.workers, without_places(arguments.typed))
    from plant.cluster.pool import Call
    from plant.cluster.training import train_on_ray

    quiet = argparse.Namespace(**{**vars(arguments), "workers": None, "cluster": "", "mlflow": ""})

    def began() -> None:
        say("training on the cluster: its logs are Ray's")

    train_on_ray(Call(part, (quiet,)), address, workers=arguments.workers, most=most, room=room, began=began)


def check_workers(arguments: argparse.Namespace) -> None:
    """Refuse numbers of processes that are none."""
    if arguments.workers is not None and arguments.workers < 1:
        raise InputError(f"--workers {arguments.workers}: a number of at least 1")


def without_places(words: Sequence[str]) -> list[str]:
    """The options for each process, which are told how many they are otherwise."""
    kept, words = [], list(words)
    while words:
        word = words.pop(0)
        if word in PLACES:
            words.pop(0)
        elif not word.startswith(tuple(f"{place}=" for place in PLACES)):
            kept.append(word)
    return kept
