"""Checkpoints: everything a killed run needs to go on to the same numbers, in one atomic file without pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from plant.artifact import atomic_file, read_tensors, write_tensors

STATE = "state.json"  # the tensor that holds the JSON part, as UTF-8 bytes


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and the rest as JSON."""

    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]


def save_checkpoint(path: Path | str, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write a checkpoint; a crash in between leaves the older one whole."""
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    arrays[STATE] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    with atomic_file(path) as temporary:
        write_tensors(temporary, arrays)


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
