"""Mixed precision where it pays."""

from contextlib import AbstractContextManager, nullcontext

import torch


def mixed_precision(device: str, *, wanted: bool) -> AbstractContextManager[object]:
    """Products in bfloat16 inside the block, on a GPU and if wanted."""
    on_gpu = torch.device(device).type == "cuda"
    return torch.autocast("cuda", dtype=torch.bfloat16) if on_gpu and wanted else nullcontext()
