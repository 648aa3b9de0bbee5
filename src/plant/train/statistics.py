"""Running means of batch normalisation, moved by the micro-batches of an update in their order, whoever computed them.

torch moves them while it computes: r becomes (1 - m) r + m s. Beginning each micro-batch at zero leaves m s alone, and
the sum is made here, in the same way for one process and for many.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from plant.train.together import Together


@dataclass
class RunningStatistics:
    """The normalisations of a model that keep running means, and by what micro-batches of this update moved them."""

    modules: list[_BatchNorm]
    moved: dict[int, NDArray[np.float32]] = field(default_factory=dict)  # by micro-batch

    @classmethod
    def of(cls, model: nn.Module) -> "RunningStatistics":
        found = [module for module in model.modules() if isinstance(module, _BatchNorm)]
        return cls([one for one in found if one.track_running_stats and one.momentum is not None])

    @contextmanager
    def micro_batch(self, number: int) -> Iterator[None]:
        """Let a micro-batch move the means from zero, and put them back as they were."""
        if not self.modules:
            yield
            return
        before = [tensor.clone() for tensor in self._buffers()]
        for tensor in self._buffers():
            tensor.zero_()
        try:
            yield
            self.moved[number] = torch.cat([tensor.reshape(-1).float().cpu() for tensor in self._buffers()]).numpy()
        finally:
            for tensor, value in zip(self._buffers(), before, strict=True):
                tensor.copy_(value)

    def update(self, together: Together, *, micro_batches: int) -> None:
        """Move the means by all micro-batches of an update."""
        if not self.modules:
            return
        sizes = [tensor.numel() for tensor in self._buffers()]
        rows = np.zeros((micro_batches, sum(sizes)), np.float32)
        for number, row in self.moved.items():
            rows[number] = row
        self.moved = {}
        for row in torch.from_numpy(together.gathered(rows)):
            parts = row.split(sizes)
            for module, mean, var, times in zip(self.modules, parts[0::3], parts[1::3], parts[2::3], strict=True):
                _move(module, mean, var, int(times))

    def _buffers(self) -> list[Tensor]:
        """Mean, variance and how often they were moved, of each module."""
        found: list[Tensor] = []
        for module in self.modules:
            assert module.running_mean is not None
            assert module.running_var is not None
            assert module.num_batches_tracked is not None
            found += [module.running_mean, module.running_var, module.num_batches_tracked]
        return found


def _move(module: _BatchNorm, mean: Tensor, var: Tensor, times: int) -> None:
    """Nothing is moved where the module was not used, as in an encoder whose states are stored."""
    assert module.momentum is not None
    assert module.running_mean is not None
    assert module.running_var is not None
    assert module.num_batches_tracked is not None
    kept = (1 - module.momentum) ** times
    module.running_mean.mul_(kept).add_(mean.to(module.running_mean.device))
    module.running_var.mul_(kept).add_(var.to(module.running_var.device))
    module.num_batches_tracked.add_(times)
