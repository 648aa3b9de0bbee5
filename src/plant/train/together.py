"""Processes that train one model: who computes which micro-batch, and the one sum before an update.

The recipe decides the mathematics, the processes only who computes: an update is the sum of `accumulate` micro-batches,
and micro-batch m is computed by process m mod `size`. Two processes with an update of two give the bits of one; beyond,
sums of floats have more than one order, unless they are `exact`.
"""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn

from plant.errors import InputError

PATIENCE = timedelta(minutes=30)  # for the slowest process: validation, or reading all notes once
OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # with 1, each start of torchrun's processes has a store of its own
LARGE = 1 << 22  # numbers of a table from which on telling which rows were touched costs less than sending all
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@runtime_checkable
class Together(Protocol):
    """This process among those of a training."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def by_labels(self) -> bool:
        """Whether processes share the labels of a decoder, and not the micro-batches of an update."""
        ...

    def computed(self, number: int, parameters: Sequence[nn.Parameter]) -> None:
        """Say that the gradients of a micro-batch were added, by its number within the update."""
        ...

    def sum_gradients(self, parameters: Sequence[nn.Parameter], *, micro_batches: int) -> None:
        """Give every process the gradients of the whole update; one that is None everywhere stays None."""
        ...

    def clip(self, parameters: Sequence[nn.Parameter], most: float) -> None:
        """Shorten the gradient of all parameters, wherever they are, to a norm of at most that."""
        ...

    def wait(self) -> None:
        """Called before a checkpoint takes its place: where it is in parts, all are written then."""
        ...

    def totals(self, values: Sequence[float]) -> list[float]:
        """The sums over processes, value by value."""
        ...

    def gathered(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """A matrix whose rows were computed by one process each, and are zeros with the others."""
        ...


@dataclass(frozen=True)
class Alone:
    """One process, which computes everything."""

    rank: int = 0
    size: int = 1
    by_labels: bool = False

    def computed(self, number: int, parameters: Sequence[nn.Parameter]) -> None:
        """The gradients are where they belong."""

    def clip(self, parameters: Sequence[nn.Parameter], most: float) -> None:
        nn.utils.clip_grad_norm_(parameters, most)

    def wait(self) -> None:
        """There is nobody to wait for."""

    def sum_gradients(self, parameters: Sequence[nn.Parameter], *, micro_batches: int) -> None:
        """They are summed already."""

    def totals(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def gathered(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return rows


ALONE = Alone()


@dataclass(frozen=True)
class Ranked:
    """A process of the group that torch.distributed made.

    With `exact`, the gradients of each micro-batch are kept apart and added in the order of their numbers: the bits of
    one process with any number of them, for `accumulate` times the memory.
    """

    rank: int
    size: int
    exact: bool = False
    by_labels: bool = False
    kept: dict[int, list[Tensor | None]] = field(default_factory=dict)  # of this update, by micro-batch

    def computed(self, number: int, parameters: Sequence[nn.Parameter]) -> None:
        if not self.exact:
            return
        self.kept[number] = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None

    def sum_gradients(self, parameters: Sequence[nn.Parameter], *, micro_batches: int) -> None:
        if not self.exact:
            return _sum(parameters, [parameter.grad for parameter in parameters])
        summed: list[Tensor | None] = [None] * len(parameters)
        for number in range(micro_batches):
            _sum(parameters, self.kept.pop(number, [None] * len(parameters)))
            for place, parameter in enumerate(parameters):
                summed[place] = _added(summed[place], parameter.grad)
        for parameter, gradient in zip(parameters, summed, strict=True):
            parameter.grad = gradient

    def clip(self, parameters: Sequence[nn.Parameter], most: float) -> None:
        nn.utils.clip_grad_norm_(parameters, most)

    def wait(self) -> None:
        """The first process alone writes."""

    def totals(self, values: Sequence[float]) -> list[float]:
        found = torch.tensor(list(values), dtype=torch.float64, device=_device())
        distributed.all_reduce(found)
        return [float(value) for value in found.tolist()]

    def gathered(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        found = torch.from_numpy(np.ascontiguousarray(rows)).to(_device())
        distributed.all_reduce(found)
        return found.cpu().numpy()


def _added(sum_so_far: Tensor | None, gradient: Tensor | None) -> Tensor | None:
    return gradient if sum_so_far is None else sum_so_far if gradient is None else sum_so_far + gradient


def _sum(parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    """Set each parameter's gradient to the sum over processes: one buffer, with how many have each, sent once.

    Of large tables the rows alone that some process touched are sent: those of the update's words.
    """
    learning = [
        pair for pair in zip(parameters, gradients, strict=True) if pair[0].requires_grad
    ]  # the same everywhere
    for parameter in parameters:
        parameter.grad = None
    if not learning:
        return
    parts = [torch.zeros_like(one) if gradient is None else gradient.detach() for one, gradient in learning]
    there = parts[0].new_tensor([float(gradient is not None) for _, gradient in learning])
    rows = _touched_rows(parts)
    sent = [part if some is None else part[some] for part, some in zip(parts, rows, strict=True)]
    flat = torch.cat([there, *(part.reshape(-1) for part in sent)])
    distributed.all_reduce(flat)
    counts, *sums = flat.split([len(there), *(part.numel() for part in sent)])
    for place, (parameter, _) in enumerate(learning):
        found, some = sums[place].view_as(sent[place]), rows[place]
        whole = found if some is None else parts[place].index_copy(0, some, found)
        parameter.grad = whole if counts[place] else None


def _touched_rows(parts: Sequence[Tensor]) -> list[Tensor | None]:
    """For each gradient the rows to be sent, the same with all processes: None where it goes whole."""
    tables = [part for part in parts if _is_large(part)]
    if not tables:
        return [None] * len(parts)
    touched = torch.cat([table.ne(0).any(dim=1) for table in tables]).to(torch.uint8)
    distributed.all_reduce(touched, op=distributed.ReduceOp.MAX)
    of_tables = iter(touched.split([len(table) for table in tables]))
    return [next(of_tables).nonzero().squeeze(1) if _is_large(part) else None for part in parts]


def _is_large(part: Tensor) -> bool:
    return part.ndim == 2 and part.numel() >= LARGE


def _device() -> str:
    return "cuda" if distributed.get_backend() == "nccl" else "cpu"


def is_ranked() -> bool:
    """Whether this process was started as one of several, as torchrun does."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def ranked(device: str = "cpu", *, exact: bool = False, by_labels: bool = False) -> Iterator[Together]:
    """This process among those that torchrun started; alone where nobody did."""
    if not is_ranked():
        yield ALONE
        return
    _check_restarts()
    if interface := interface_to(os.environ.get("MASTER_ADDR", "")):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)  # in containers the host's name often leads nowhere
    mine = not distributed.is_initialized()
    if mine:
        distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo", timeout=PATIENCE)
    try:
        yield Ranked(distributed.get_rank(), distributed.get_world_size(), exact, by_labels)
    finally:
        if mine:
            distributed.destroy_process_group()


def interface_to(host: str) -> str:
    """The network interface by which this machine reaches a host; empty where that cannot be told, and gloo guesses."""
    if host in LOOPBACK:
        return "lo"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        try:
            found.connect((host, 9))  # of a datagram: nothing is sent
        except OSError:
            return ""
        mine = found.getsockname()[0]
        return next((name for _, name in socket.if_nameindex() if _address(found, name) == mine), "")


def _address(opened: socket.socket, interface: str) -> str:
    """The address of an interface, as Linux tells it."""
    import fcntl

    try:
        told = fcntl.ioctl(opened.fileno(), 0x8915, struct.pack("256s", interface.encode()[:15]))  # SIOCGIFADDR
    except OSError:  # it has none
        return ""
    return socket.inet_ntoa(told[20:24])


def _check_restarts() -> None:
    """Refuse a launcher whose restarts would wait for ever: its store keeps the addresses of the dead processes."""
    restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))
    if restarts and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        raise InputError(f"torchrun would hang after a restart: set {OWN_STORE}=1 on all machines, or --max-restarts 0")


def check_size(together: Together, accumulate: int, otherwise: str = "") -> None:
    """Refuse more processes than there are micro-batches in an update: some would only wait."""
    if together.size > accumulate:
        classifier = f"--set fit.accumulate={together.size} (a smaller fit.batch keeps the size of the update)"
        raise InputError(
            f"{together.size} processes share the micro-batches of an update, of which this training has {accumulate}: "
            f"take fewer, or {otherwise or classifier}"
        )
