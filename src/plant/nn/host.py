"""What a CPU decides without torch: whether plain torch is asked for, and work side by side in threads."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from plant.errors import InputError

VARIABLE = "PLANT_FORMS"


def plain_torch_asked() -> bool:
    """Whether PLANT_FORMS=torch asks for what other devices run, on the CPU too."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "torch"):
        raise InputError(f"{VARIABLE} is {wanted!r}: set it to torch, for plain torch on the CPU too, or leave it out")
    return bool(wanted)


def side_by_side(work: Callable[[int, int], None], n: int) -> None:
    """Call `work(first, last)` on parts of `range(n)`, in torch's number of threads."""
    in_threads(lambda part: work(part.start, part.stop), n, threads_at_once())


def in_threads(work: Callable[[slice], None], n_rows: int, threads: int) -> None:
    """Call `work` on slices of the rows side by side; it must let go of the interpreter's lock to gain from it."""
    bounds = np.linspace(0, n_rows, max(1, min(threads, n_rows)) + 1).astype(int).tolist()
    slices = [slice(first, last) for first, last in pairwise(bounds)]
    if len(slices) == 1:
        work(slices[0])
        return
    with ThreadPoolExecutor(len(slices)) as pool:
        list(pool.map(work, slices))


def threads_at_once() -> int:
    """Torch's number of threads; where torch is not loaded, what it would take."""
    torch = sys.modules.get("torch")  # asking for it by import would load it
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return torch.get_num_threads() if torch is not None else int(asked) if asked.isdigit() else os.cpu_count() or 1
