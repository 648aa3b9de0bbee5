"""Checkpoints: everything a killed run needs to go on to the same numbers, in one atomic file without pickle."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from plant.store.artifact import atomic_file
from plant.store.safetensors import read_tensors, write_tensors

FORMAT = 2  # until 1 one stream of random numbers ran through all steps, and was kept; now each step has its own
STATE = "state.json"  # the tensor that holds the JSON part, as UTF-8 bytes


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and the rest as JSON."""

    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]


def save_checkpoint(
    path: Path | str,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    *,
    wait: Callable[[], None] = lambda: None,
) -> None:
    """Write a checkpoint; a crash in between leaves the older one whole. `wait` is called before it takes its place."""
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    arrays[STATE] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    with atomic_file(path) as temporary:
        write_tensors(temporary, arrays)
        wait()


def load_checkpoint(path: Path | str) -> Checkpoint | None:
    """The checkpoint at `path`, or None where there is none."""
    if not Path(path).is_file():
        return None
    arrays = read_tensors(Path(path))
    state = json.loads(arrays.pop(STATE).tobytes())
    return Checkpoint({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}, state)


def pack_optimizer(optimizer: Optimizer, prefix: str = "optimizer.") -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """An optimizer's tensors by name, and the options of its groups as JSON."""
    packed = optimizer.state_dict()
    tensors = {
        f"{prefix}{number}.{key}": torch.as_tensor(value)
        for number, state in packed["state"].items()
        for key, value in state.items()
        if value is not None
    }
    return tensors, packed["param_groups"]


def unpack_optimizer(
    optimizer: Optimizer, tensors: Mapping[str, Tensor], groups: list[dict[str, Any]], prefix: str = "optimizer."
) -> None:
    """Give an optimizer back what `pack_optimizer` took."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            number, _, key = name.removeprefix(prefix).partition(".")
            state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": groups})


@dataclass(frozen=True)
class Saved:
    """What a training had saved: its tensors by part and name, and its state as JSON."""

    parts: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]


def save_training(
    path: Path | str,
    parts: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
    *,
    optimizer: Optimizer,
    fingerprint: str = "",
    wait: Callable[[], None] = lambda: None,
) -> None:
    """Write the tensors of each part and of the optimizer; random numbers follow from the seed, epoch and step."""
    tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
    of_optimizer, groups = pack_optimizer(optimizer)
    about = {"groups": groups, "fingerprint": fingerprint, "format": FORMAT}
    save_checkpoint(path, {**tensors, **of_optimizer}, {**state, **about}, wait=wait)


def resume_training(path: Path | str | None, *parts: str, optimizer: Optimizer, fingerprint: str = "") -> Saved | None:
    """Give the optimizer back what was saved, and return the rest.

    None: nothing was, or by a training with another fingerprint, or by a version that would have gone on otherwise.
    """
    found = load_checkpoint(path) if path else None
    if found is None or (found.state.get("fingerprint", ""), found.state.get("format", 1)) != (fingerprint, FORMAT):
        return None
    unpack_optimizer(optimizer, found.tensors, found.state["groups"])
    state = {key: value for key, value in found.state.items() if key not in ("groups", "fingerprint", "format")}
    return Saved({part: _of_part(found.tensors, f"{part}.") for part in parts}, state)


def _of_part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
