"""Which form of a computation a device takes: kernels compiled for the CPU, or plain torch, which runs anywhere."""

from contextlib import AbstractContextManager, nullcontext

import torch

from plant.nn.host import plain_torch_asked


def compiled_for(device: torch.device) -> bool:
    """Whether compiled kernels do the work: on a CPU, unless PLANT_FORMS=torch asks for what other devices run."""
    return not plain_torch_asked() and device.type == "cpu"


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Where mixed precision ends; some devices know none."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else nullcontext()


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the host on a device; a GPU fetches it from pinned memory when it is there, and nobody waits."""
    there = tensor.pin_memory() if device.type == "cuda" else tensor
    return there.to(device, non_blocking=True)
