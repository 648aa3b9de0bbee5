"""Splits: by patient at random, stratified by label, a stable held-out share; and what names a split in a result.

All decisions come from hashes of patients (or notes, where the patient is not known) and a seed, so the order in which
notes arrive changes nothing. Notes of one patient never part.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.errors import InputError

SALT = "plant split"  # the same everywhere: equal splits have equal digests on every machine
DRAWN = 1_000_003  # added to a seed, so that what is drawn has nothing to do with what is held out


def random_split(
    ids: Sequence[str], groups: Sequence[str], shares: Mapping[str, float], *, seed: int
) -> NDArray[np.int8]:
    """Per note the number of its split in `shares`: patients in random order, cut where the shares are full."""
    _check_shares(shares)
    units = _units(ids, groups, seed=seed)
    sizes = np.bincount(units)
    middles = np.cumsum(sizes) - sizes / 2
    cuts = np.cumsum(list(shares.values()))[:-1] * len(ids)
    return np.searchsorted(cuts, middles, side="right").astype(np.int8)[units]


def stratified_split(
    ids: Sequence[str],
    groups: Sequence[str],
    labels: Sequence[Sequence[Hashable]],
    shares: Mapping[str, float],
    *,
    seed: int,
) -> NDArray[np.int8]:
    """Per note the number of its split in `shares`, every label spread as the shares say, as far as patients allow.

    Iterative stratification after Sechidis, Tsoumakas and Vlahavas (2011): the rarest label is dealt out first. Other
    than there, patients are dealt instead of notes, full splits take no more, and among the splits that lack the label
    that one gets the patient which lacks most of all its labels; docs/data/splits.md has the figures.
    """
    _check_shares(shares)
    units = _units(ids, groups, seed=seed)
    dealer = _Dealer(_label_counts(units, labels), np.bincount(units), np.array(list(shares.values())))
    return dealer.deal()[units]


def hold_out_share(ids: Sequence[str], groups: Sequence[str], share: float, *, seed: int) -> NDArray[np.bool_]:
    """Which notes are held out; a patient's fate is its own hash, so it stays when other notes are added."""
    if not 0 < share < 1:
        raise InputError(f"a held-out share lies between 0 and 1, not {share}")
    return _hashes(_keys(ids, groups), seed) < share * 2.0**64


def first_drawn(ids: Sequence[str], groups: Sequence[str], count: int, *, seed: int) -> NDArray[np.bool_]:
    """Which notes are the first `count` of an order that the seed decides: small draws lie within larger ones."""
    drawn = np.zeros(len(ids), bool)
    drawn[np.lexsort((np.arange(len(ids)), _hashes(_keys(ids, groups), seed + DRAWN)))[:count]] = True
    return drawn


def check_groups(groups: Sequence[str], splits: Sequence[str]) -> None:
    """Refuse a patient whose notes are in two splits; unknown patients (empty strings) cannot be checked."""
    pairs = {(group, split) for group, split in zip(groups, splits, strict=True) if group}
    parted = sorted(group for group, count in Counter(group for group, _ in pairs).items() if count > 1)
    if parted:
        where = ", ".join(sorted(split for group, split in pairs if group == parted[0]))
        raise InputError(
            f"{len(parted):,} of {len({group for group, _ in pairs}):,} patients have notes in more than one split, "
            f"such as the patient with hash {_salted(parted[0])[:12]} ({where}): split by patient"
        )


@dataclass(frozen=True)
class SplitManifest:
    """What names a split: how many notes each part has and a digest of their ids, from which no id can be read."""

    name: str
    notes: Mapping[str, int]
    digests: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Of the whole; equal if and only if the same notes are in the same parts."""
        return _digest(f"{part} {self.digests[part]}" for part in sorted(self.digests))

    def to_dict(self) -> dict[str, Any]:
        """Plain, for manifests and reports."""
        parts = {part: {"notes": self.notes[part], "sha256": self.digests[part]} for part in self.notes}
        return {"name": self.name, "parts": parts, "digest": self.digest}


def split_manifest(name: str, ids: Sequence[str], splits: Sequence[str]) -> SplitManifest:
    """The manifest of notes `ids` in parts `splits`, one for each note."""
    members: dict[str, list[str]] = {part: [] for part in splits}
    for id_, part in zip(ids, splits, strict=True):
        members[part].append(_salted(id_))
    return SplitManifest(
        name=name,
        notes={part: len(hashed) for part, hashed in members.items()},
        digests={part: _digest(sorted(hashed)) for part, hashed in members.items()},
    )


@dataclass(frozen=True)
class _LabelCounts:
    """How many notes of a patient have a label: one row per pair, sorted by patient, then by label."""

    units: NDArray[np.int64]
    labels: NDArray[np.int64]
    notes: NDArray[np.int64]
    n_labels: int


def _label_counts(units: NDArray[np.int64], labels: Sequence[Sequence[Hashable]]) -> _LabelCounts:
    distinct = [set(of_note) for of_note in labels]
    numbers = {label: number for number, label in enumerate(sorted(set().union(*distinct), key=_order))}
    flat = np.fromiter((numbers[label] for of_note in distinct for label in of_note), np.int64)
    rows = np.repeat(units, [len(of_note) for of_note in distinct])
    pairs, notes = np.unique(rows * max(len(numbers), 1) + flat, return_counts=True)
    return _LabelCounts(*np.divmod(pairs, max(len(numbers), 1)), notes, len(numbers))


class _Dealer:
    """What the splits still lack while patients are dealt out to them."""

    def __init__(self, counts: _LabelCounts, sizes: NDArray[np.int64], shares: NDArray[np.float64]) -> None:
        total = np.bincount(counts.labels, counts.notes, minlength=counts.n_labels)
        self.counts, self.sizes, self.shares = counts, sizes, shares
        self.starts = np.searchsorted(counts.units, np.arange(len(sizes) + 1))
        self.weights = 1 / np.sqrt(total)  # what chance alone would leave lacking grows with the root of the total
        self.lacking = np.outer(total, shares)  # notes of a label that a split lacks
        self.room = shares * sizes.sum()  # notes that a split lacks
        self.left = total  # notes of a label that are not dealt yet
        self.split = np.full(len(sizes), -1, np.int8)

    def deal(self) -> NDArray[np.int8]:
        """The split of each patient: label after label, the rarest of those left first; the rest fills up."""
        by_label = np.argsort(self.counts.labels, kind="stable")
        holders = np.split(self.counts.units[by_label], np.cumsum(np.bincount(self.counts.labels))[:-1])
        while (self.left > 0).any():
            label = np.where(self.left > 0, self.left, np.inf).argmin()
            for unit in holders[label]:
                self._place(unit, self.lacking[label] > 0.5)
        for unit in range(len(self.sizes)):
            self._place(unit, self.room > 0)
        return self.split

    def _place(self, unit: int | np.int64, lacks: NDArray[np.bool_]) -> None:
        """Give a patient to a split that has room and lacks the label, where most of its other labels lack too."""
        if self.split[unit] >= 0:
            return
        rows = slice(self.starts[unit], self.starts[unit + 1])
        labels, notes = self.counts.labels[rows], self.counts.notes[rows]
        desire = (self.weights[labels, None] * self.lacking[labels]).sum(axis=0) / self.shares
        chosen = np.lexsort((self.room, desire.round(9), lacks, self.room > 0))[-1]  # rounded: a tie on every machine
        self.split[unit] = chosen
        self.lacking[labels, chosen] -= notes
        self.left[labels] -= notes
        self.room[chosen] -= self.sizes[unit]


def _order(label: Hashable) -> tuple[int, str]:
    """Numbers by size, strings by alphabet."""
    return (label, "") if isinstance(label, int) else (0, str(label))


def _units(ids: Sequence[str], groups: Sequence[str], *, seed: int) -> NDArray[np.int64]:
    """Per note the number of its patient in a random order."""
    keys = _keys(ids, groups)
    distinct = sorted(set(keys))
    order = np.argsort(_hashes(distinct, seed), kind="stable")
    number = dict(zip((distinct[place] for place in order), range(len(distinct)), strict=True))
    return np.array([number[key] for key in keys], np.int64)


def _keys(ids: Sequence[str], groups: Sequence[str]) -> list[str]:
    return [f"patient {group}" if group else f"note {id_}" for id_, group in zip(ids, groups, strict=True)]


def _hashes(keys: Sequence[str], seed: int) -> NDArray[np.uint64]:
    digests = b"".join(blake2b(f"{seed} {key}".encode(), digest_size=8).digest() for key in keys)
    return np.frombuffer(digests, ">u8").astype(np.uint64)


def _salted(identifier: str) -> str:
    return sha256(f"{SALT} {identifier}".encode()).hexdigest()


def _digest(lines: Iterable[str]) -> str:
    return sha256("\n".join(lines).encode()).hexdigest()


def _check_shares(shares: Mapping[str, float]) -> None:
    named = ", ".join(f"{name} {share:g}" for name, share in shares.items())
    if not shares or min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-6:
        raise InputError(f"shares of splits must be positive and add up to 1, not: {named or 'none'}")
