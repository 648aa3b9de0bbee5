"""The names of labels as runs of token numbers, and what the fitted notes say of each name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.errors import ArtifactError
from plant.store.checks import check_length, check_numbers, check_starts


@dataclass(frozen=True)
class Names:
    """Name i is `words[starts[i]:starts[i + 1]]` and belongs to label `labels[i]`.

    `support` counts the fitted notes in which a human coder marked the name (0: it comes from a book), `log_odds` is
    how far the code follows when the name is found in a note. The first `n_trained` names, `n_labels` labels and
    `n_words` words were there in training; those after them were added to the fitted coder.
    """

    words: NDArray[np.int32]
    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    support: NDArray[np.int32]
    log_odds: NDArray[np.float32]
    n_trained: int
    n_labels: int
    n_words: int

    def __len__(self) -> int:
        return len(self.labels)

    def pack(self) -> dict[str, NDArray[Any]]:
        """The names as arrays."""
        sizes = np.array([self.n_trained, self.n_labels, self.n_words], np.int64)
        flat = ("words", "starts", "labels", "support", "log_odds")
        return {name: getattr(self, name) for name in flat} | {"sizes": sizes}


def unpack_names(arrays: Mapping[str, NDArray[Any]]) -> Names:
    """The names that `pack` took apart."""
    flat = {name: np.array(array) for name, array in arrays.items() if name != "sizes"}
    n_trained, n_labels, n_words = arrays["sizes"].tolist()
    return Names(**flat, n_trained=n_trained, n_labels=n_labels, n_words=n_words)


def check_names(names: Names, *, words: int, labels: int) -> None:
    """Refuse names whose words or labels lie out of their tables."""
    check_starts("names.starts", names.starts, len(names.words), rows=len(names))
    check_numbers("names.words", names.words, words)
    check_numbers("names.labels", names.labels, labels)
    check_length("names.support", names.support, len(names))
    check_length("names.log_odds", names.log_odds, len(names))
    if not (0 <= names.n_trained <= len(names) and 0 <= names.n_labels <= labels and 0 <= names.n_words <= words):
        raise ArtifactError("names.sizes of the folder do not fit its names: make it again")


def with_names(names: Names, further: Names) -> Names:
    """The names with those of labels that were added later at the end; what training knew stays as it was."""
    return Names(
        words=np.concatenate([names.words, further.words]),
        starts=np.concatenate([names.starts, names.starts[-1] + further.starts[1:]]),
        labels=np.concatenate([names.labels, further.labels]),
        support=np.concatenate([names.support, further.support]),
        log_odds=np.concatenate([names.log_odds, further.log_odds]),
        n_trained=names.n_trained,
        n_labels=names.n_labels,
        n_words=names.n_words,
    )
