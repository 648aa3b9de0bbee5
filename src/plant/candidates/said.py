"""What another system says of whole notes: log-odds of the codes that it knows."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SaidOfNotes:
    """Log-odds of `codes` for some notes, [notes, codes]."""

    codes: tuple[str, ...]
    values: NDArray[np.float32]

    def of(self, note: int, columns: Mapping[str, int]) -> NDArray[np.float32]:
        """The log-odds of a note in the columns of a coder; not a number for codes that the system does not know."""
        found = np.full(len(columns), np.nan, np.float32)
        places = [columns.get(code, -1) for code in self.codes]
        known = np.array(places) >= 0
        found[np.array(places)[known]] = self.values[note][known]
        return found
