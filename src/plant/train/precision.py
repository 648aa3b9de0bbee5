"""Mixed precision where it pays."""

from contextlib import AbstractContextManager, nullcontext

import torch

from plant.nn.forms import compiled_for


def mixed_precision(device: str, *, wanted: bool) -> AbstractContextManager[object]:
    """Products in bfloat16 inside the block, if wanted: on a GPU, or where a CPU runs what a GPU would."""
    kind = torch.device(device)
    pays = kind.type in ("cuda", "cpu") and not compiled_for(kind)
    return torch.autocast(kind.type, dtype=torch.bfloat16) if pays and wanted else nullcontext()
