"""What is kept of a run when its folder may go: a small file, from which a study goes on, also on another machine."""

import gzip
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plant.errors import InputError, quoted_path
from plant.store.artifact import atomic_file
from plant.studies.fittings import Cost, Fitting


@dataclass(frozen=True)
class Kept:
    """Files of runs in a folder, or none; `told` says in JSON what a study wants to know of a run that is there."""

    told: Callable[[Fitting, Cost], Any]
    folder: Path | None = None

    def cost(self, fitting: Fitting) -> Cost | None:
        """What a run cost that need not be repeated; None where it was not kept, or was made from something else."""
        found = self._read(fitting)
        return None if found is None else Cost(**found["cost"])

    def put(self, fitting: Fitting, cost: Cost) -> None:
        """Keep what is told of a run, where anything is kept."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"cost": asdict(cost), "told": self.told(fitting, cost)}, ensure_ascii=False)
        with atomic_file(self._path(self.folder, fitting)) as temporary:
            temporary.write_bytes(gzip.compress(content.encode(), mtime=0))  # the same run is the same file

    def get(self, fitting: Fitting, cost: Cost) -> Any:
        """What is told of a run, as it was kept, or from its folder."""
        found = self._read(fitting)
        return self.told(fitting, cost) if found is None else found["told"]

    def _read(self, fitting: Fitting) -> dict[str, Any] | None:
        if self.folder is None or not (path := self._path(self.folder, fitting)).is_file():
            return None
        try:
            found = json.loads(gzip.decompress(path.read_bytes()))
            return dict(found) if found["cost"]["made_from"] == fitting.made_from else None
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            raise InputError(f"{quoted_path(path)} is no kept run: delete it, and its run is fitted again") from None

    @staticmethod
    def _path(folder: Path, fitting: Fitting) -> Path:
        return folder / f"{fitting.folder.name}.json.gz"
