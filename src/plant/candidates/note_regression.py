"""What the whole note says of a code: kernel ridge regression of codes on TF-IDF of the note's stems.

    X = TF-IDF of the fitted notes, rows of length 1        K = X X^T
    A = (K + lambda I)^-1 (Y - mu)                          mu = share of notes that have a code
    s(x) = X x A + mu

The fitted notes and A are kept instead of weights of words: few notes, many words.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.store.checks import check_finite, check_numbers, check_shape, check_starts
from plant.store.ragged import offsets

MOST_NOTES = 5_000  # beyond, the kernel is too large; the judge then does without


@dataclass(frozen=True)
class NoteRegression:
    """Fitted notes as rows of weighted stems, and what each says for every code."""

    stems: tuple[str, ...]
    weights: NDArray[np.float32]  # inverse document frequencies
    rows: csr_array  # [notes, stems]
    answers: NDArray[np.float32]  # [notes, codes]
    shares: NDArray[np.float32]  # of fitted notes that have each code

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The column of each stem."""
        return {stem: number for number, stem in enumerate(self.stems)}

    def scores(self, stems: Sequence[str]) -> NDArray[np.float32]:
        """What a note of these stems says for every code; about 1 for codes of notes like it."""
        vector = _vector(stems, self.numbers, self.weights)
        return (self.rows @ vector) @ self.answers + self.shares

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain options and arrays."""
        arrays = {
            "weights": self.weights, "values": self.rows.data, "columns": self.rows.indices.astype(np.int32),
            "starts": self.rows.indptr.astype(np.int64), "answers": self.answers, "shares": self.shares,
        }  # fmt: skip
        return {"stems": list(self.stems)}, arrays


def unpack_regression(
    options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, n_codes: int
) -> NoteRegression:
    """The regression that `pack` took apart."""
    stems = tuple(options["stems"])
    shape = (len(arrays["starts"]) - 1, len(stems))
    check_starts("starts", arrays["starts"], len(arrays["columns"]))
    check_numbers("columns", arrays["columns"], len(stems))
    check_shape("values", arrays["values"], (len(arrays["columns"]),))
    check_shape("weights", arrays["weights"], (len(stems),))
    check_shape("answers", arrays["answers"], (shape[0], len(arrays["shares"])))
    check_shape("shares", arrays["shares"], (n_codes,))
    check_finite(arrays)
    rows = csr_array((arrays["values"], arrays["columns"], arrays["starts"]), shape=shape)
    return NoteRegression(stems, arrays["weights"], rows, arrays["answers"], arrays["shares"])


def fit_regression(
    notes: Sequence[Sequence[str]], labels: Sequence[Iterable[int]], *, n_codes: int, penalty: float = 0.3
) -> NoteRegression | None:
    """Fit on the stems and labels of notes; None where there are too many notes for a kernel, or none."""
    if not 0 < len(notes) <= MOST_NOTES:
        return None
    found = Counter(stem for note in notes for stem in set(note))
    stems = tuple(sorted(stem for stem, count in found.items() if count > 1 and any(map(str.isalpha, stem))))
    weights = np.log(len(notes) / np.array([found[stem] for stem in stems], np.float32)).astype(np.float32)
    numbers = {stem: number for number, stem in enumerate(stems)}
    rows = _rows([_weighed(note, numbers, weights) for note in notes], n_stems=len(stems))
    gold = np.zeros((len(notes), n_codes), np.float32)
    for row, own in enumerate(labels):
        gold[row, list(own)] = 1
    shares = gold.mean(axis=0)
    kernel = (rows @ rows.T).toarray() + penalty * np.eye(len(notes), dtype=np.float32)
    answers = np.linalg.solve(kernel, gold - shares).astype(np.float32)
    return NoteRegression(stems, weights, rows, answers, shares)


def _vector(stems: Sequence[str], numbers: Mapping[str, int], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """The note as a row of length 1."""
    vector = np.zeros(len(weights), np.float32)
    columns, values = _weighed(stems, numbers, weights)
    vector[columns] = values
    return vector


def _weighed(
    stems: Sequence[str], numbers: Mapping[str, int], weights: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The columns of a note's stems, sorted, and their shares of its length."""
    counts = Counter(numbers[stem] for stem in stems if stem in numbers)
    columns = np.array(sorted(counts), np.int64)
    values = (1 + np.log(np.array([counts[column] for column in columns.tolist()], np.float32))) * weights[columns]
    length = float(np.linalg.norm(values))
    return columns, (values / max(length, 1e-12)).astype(np.float32)


def _rows(notes: Sequence[tuple[NDArray[np.int64], NDArray[np.float32]]], *, n_stems: int) -> csr_array:
    columns, values = (np.concatenate(arrays) for arrays in zip(*notes, strict=True))
    return csr_array((values, columns, offsets([len(note[0]) for note in notes])), shape=(len(notes), n_stems))
