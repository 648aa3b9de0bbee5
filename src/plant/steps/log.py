"""What a training tells of itself, epoch by epoch, in a file beside its run."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from plant.store.artifact import atomic_file
from plant.train.history import ClassifierEpoch


@dataclass(frozen=True)
class TrainingLog:
    """One JSON line per epoch, and the same for TensorBoard where a folder for its events is given.

    An epoch that is trained again, after a kill or with another recipe, takes the place of the one before and of those
    that came after it.
    """

    path: Path
    events: Path | None = None

    def write(self, member: str, epoch: ClassifierEpoch) -> None:
        """Write an epoch behind the earlier ones."""
        written = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []
        kept = [line for line in written if _stays(line, member, epoch.number)]
        with atomic_file(self.path) as temporary:
            temporary.write_text("\n".join([*kept, json.dumps({"member": member, **asdict(epoch)})]) + "\n")
        if self.events is not None:
            _write_events(self.events / member, epoch)


def _write_events(folder: Path, epoch: ClassifierEpoch) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        writer.add_scalar("loss", epoch.loss, epoch.number)
        for name, value in epoch.measures.items():
            writer.add_scalar(f"choosing notes/{name}", value, epoch.number)


def _stays(line: str, member: str, number: int) -> bool:
    """Whether a line is whole, and tells of another member or an earlier epoch."""
    if not line.endswith("}"):
        return False
    written = json.loads(line)
    return bool(written["member"] != member or written["number"] < number)
