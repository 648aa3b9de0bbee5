"""AdamW for tables of which a step touches few rows: the others are left alone until somebody asks for them.

AdamW moves every row at every step, those without a gradient too, by what is left of their last one:

    m <- b1 m,  v <- b2 v,  p <- (1 - lr decay) p - lr / (1 - b1^t)  m / (sqrt(v / (1 - b2^t)) + eps)

A row that was not touched for n steps is moved by n such steps at once when it is touched again, so a step costs by the
rows that it touches, not by those there are. After `MOST` steps what is left of a gradient, (b1 / sqrt(b2))^MOST, is
below single precision, and the rest is a power.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

Kernel = Callable[..., None]
kernel: Callable[[Kernel], Kernel] = njit(cache=True, nogil=True)

MOST = 160  # (0.9 / sqrt(0.99))^160 = 1e-7


@dataclass
class LazyRows:
    """Tables [row, ...] that are trained together, a few rows at a time, by AdamW's rule.

    `lend` gives rows that are up to date, as leaves; once they have gradients, `update` takes a step. The tables are
    written to, but hold what AdamW would have made of them only after `settle`.
    """

    tables: Mapping[str, Tensor]
    learning_rate: float
    betas: tuple[float, float]
    weight_decay: float
    epsilon: float = 1e-8
    step: int = 0
    _lent: tuple[NDArray[np.int64], Sequence[Tensor]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.flat = {name: table.detach().view(len(table), -1) for name, table in self.tables.items()}
        self.moments = {
            f"{moment}.{name}": torch.zeros_like(table)
            for name, table in self.flat.items()
            for moment in ("first", "second")
        }
        self.seen = torch.zeros(len(next(iter(self.flat.values()))), dtype=torch.int64)  # the last step of each row

    def lend(self, rows: NDArray[np.int64]) -> list[Tensor]:
        """Some rows of each table, up to date and ready for gradients."""
        self._catch_up(rows)
        at = torch.from_numpy(rows)
        leaves = [table.detach()[at].requires_grad_() for table in self.tables.values()]
        self._lent = (rows, leaves)
        return leaves

    def update(self) -> None:
        """One step, by the gradients of the rows that were lent; none were if nothing was."""
        self.step += 1
        if self._lent is None:
            return
        (rows, leaves), self._lent = self._lent, None
        for name, leaf in zip(self.flat, leaves, strict=True):
            if leaf.grad is not None:
                slopes = leaf.grad.reshape(len(rows), -1).numpy()
                _step_rows(rows, slopes, *self._arrays(name), self.step, *self._numbers())
        self.seen[torch.from_numpy(rows)] = self.step

    def settle(self) -> None:
        """Bring every row up to date."""
        self._catch_up(np.arange(len(self.seen)))

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps, besides the tables."""
        return {**self.moments, "seen": self.seen, "step": torch.tensor(self.step)}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        for name, tensor in {**self.moments, "seen": self.seen}.items():
            tensor.copy_(saved[name])
        self.step = int(saved["step"])

    def _catch_up(self, rows: NDArray[np.int64]) -> None:
        for name in self.flat:
            _repeat_steps(rows, self.seen.numpy(), *self._arrays(name), self.step, *self._numbers(), MOST)
        self.seen[torch.from_numpy(rows)] = self.step

    def _arrays(self, name: str) -> tuple[NDArray[np.float32], ...]:
        tensors = (self.flat[name], self.moments[f"first.{name}"], self.moments[f"second.{name}"])
        return tuple(tensor.numpy() for tensor in tensors)

    def _numbers(self) -> tuple[float, ...]:
        return self.learning_rate, *self.betas, self.epsilon, 1 - self.learning_rate * self.weight_decay


@kernel
def _step_rows(rows, slopes, table, first, second, step, rate, b1, b2, epsilon, shrink):  # type: ignore[no-untyped-def]
    for place, row in enumerate(rows):
        for at in range(table.shape[1]):
            slope = slopes[place, at]
            first[row, at] += (slope - first[row, at]) * np.float32(1 - b1)
            second[row, at] = second[row, at] * np.float32(b2) + slope * slope * np.float32(1 - b2)
        _move(table[row], first[row], second[row], step, rate, b1, b2, epsilon, shrink)


@kernel
def _repeat_steps(rows, seen, table, first, second, step, rate, b1, b2, epsilon, shrink, most):  # type: ignore[no-untyped-def]
    """Steps without a gradient, up to `step`, for rows that are behind."""
    for row in rows:
        behind = step - seen[row]
        turns = min(behind, most)
        for turn in range(turns):
            for at in range(table.shape[1]):
                first[row, at] *= np.float32(b1)
                second[row, at] *= np.float32(b2)
            _move(table[row], first[row], second[row], seen[row] + turn + 1, rate, b1, b2, epsilon, shrink)
        rest = behind - turns
        if rest > 0:
            for at in range(table.shape[1]):
                first[row, at] *= np.float32(b1**rest)
                second[row, at] *= np.float32(b2**rest)
                table[row, at] *= np.float32(shrink**rest)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _move(weights, first, second, step, rate, b1, b2, epsilon, shrink):  # type: ignore[no-untyped-def]
    size, root = np.float32(rate / (1 - b1**step)), np.float32(1 / np.sqrt(1 - b2**step))
    tiny, kept = np.float32(epsilon), np.float32(shrink)
    for at in range(len(weights)):
        weights[at] = kept * weights[at] - size * (first[at] / (np.sqrt(second[at]) * root + tiny))
