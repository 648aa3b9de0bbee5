"""Several systems as one: the mean of what they say, or a blend whose weights the choosing notes decided."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, TrainingView
from plant.errors import InputError
from plant.evaluate.choosing.blend import Blend, blended, fit_blend, fit_blend_on
from plant.evaluate.choosing.calibration import logits_of
from plant.evaluate.choosing.pairs import are_many
from plant.evaluate.scores.of_texts import Full, Sparse, TextScores, Usual, sparse_of
from plant.store.checks import check_finite, check_shape
from plant.systems.system import (
    UNSEEN,
    FittedSystem,
    Growth,
    PackedSystem,
    Reading,
    pairs_said,
    probabilities,
    said,
    usual_of,
)

MEAN, BLEND = "mean", "blend"


@dataclass(frozen=True)
class MembersReading:
    """What several systems say, and how much each of them counts in an explanation."""

    system: "MembersSystem"
    members: tuple[Reading, ...]
    shares: Sequence[float]

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        return self.system.joined([reading.scores for reading in self.members], self._known, slice(None))

    @cached_property
    def text_scores(self) -> TextScores:
        of_members = [said(reading) for reading in self.members]
        sparse = [one for one in of_members if isinstance(one, Sparse)]
        if self.system.usual is None or len(sparse) < len(of_members):
            return Full(self.scores)
        return sparse_of([self._together(row, sparse) for row in range(len(sparse[0].lists))], self.system.usual)

    def _together(self, row: int, of_members: Sequence[Sparse]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The labels for which a document speaks to any member."""
        labels = np.unique(np.concatenate([one.lists.of(row) for one in of_members]))
        scores = [one.of(row, labels)[None] for one in of_members]
        return labels, self.system.joined(scores, self._known, labels)[0]

    @property
    def _known(self) -> list[int]:
        return [reading.known for reading in self.members]

    @property
    def known(self) -> int:
        return max(member.known for member in self.members)

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        """The mean by shares of what members say of words, of those that can be explained in this way."""
        found: list[NDArray[np.float32]] = []
        counted: list[float] = []
        refusals: list[InputError] = []
        for member, share in zip(self.members, self.shares, strict=True):
            try:
                found.append(member.weigh(row, labels, explainer=explainer))
                counted.append(share)
            except InputError as refusal:
                refusals.append(refusal)
        if not found:
            raise refusals[0]
        return np.average(found, axis=0, weights=counted if any(counted) else None).astype(np.float32)


@dataclass(frozen=True)
class MembersSystem:
    """Several systems.

    Without a `blend`, the mean of their probabilities; with one, they are weighed by how far they raise a label above
    its log-odds among the fitted notes.
    """

    members: tuple[FittedSystem, ...]
    log_odds: NDArray[np.float32] | None = None  # per label
    blend: Blend | None = None

    @property
    def matches_names(self) -> bool:
        return any(member.matches_names for member in self.members)

    @property
    def takes_codes(self) -> bool:
        return any(member.takes_codes for member in self.members)

    def read(self, documents: Documents, *, evidence: bool = False) -> MembersReading:
        readings = tuple(member.read(documents, evidence=evidence) for member in self.members)
        shares = [1.0] * len(readings) if self.blend is None else self.blend.weights.tolist()
        return MembersReading(self, readings, shares)

    @cached_property
    def usual(self) -> Usual | None:
        """What they say together of labels that a document speaks for to none of them, if all have such scores."""
        own = [one for one in map(usual_of, self.members) if one is not None]
        if len(own) < len(self.members):
            return None
        known = [one.known for one in own]
        return Usual(self.joined([one.values[None] for one in own], known, slice(None))[0], known=max(known))

    def unread(self, documents: Documents) -> int:
        return sum(member.unread(documents) for member in self.members)

    def quantized(self) -> "MembersSystem":
        return replace(self, members=tuple(member.quantized() for member in self.members))

    def with_codes(self, growth: Growth) -> "MembersSystem":
        members = tuple(member.with_codes(growth) for member in self.members)
        if self.log_odds is None:
            return replace(self, members=members)
        rare = np.full(growth.further, logits_of(np.array([growth.share])), np.float32)
        return replace(self, members=members, log_odds=np.concatenate([self.log_odds, rare]))

    def pack(self) -> PackedSystem:
        parts = tuple(member.pack() for member in self.members)
        if self.blend is None or self.log_odds is None:
            return PackedSystem(MEAN, parts=parts)
        numbers = {"trust": self.blend.trust, "shift": self.blend.shift}
        arrays = {"weights": np.asarray(self.blend.weights, np.float32), "log_odds": self.log_odds}
        return PackedSystem(BLEND, numbers, arrays, parts)

    def joined(
        self, scores: Sequence[NDArray[np.float32]], known: Sequence[int], labels: NDArray[np.integer] | slice
    ) -> NDArray[np.float32]:
        """What the members' scores of some labels come to; each has something to say of its first `known` labels."""
        if self.blend is None or self.log_odds is None:
            return np.mean(scores, axis=0, dtype=np.float32)
        numbers = np.arange(len(self.log_odds))[labels]
        heard = np.stack([numbers < own for own in known])
        return blended(scores, self.log_odds[labels], self.blend, heard)


def blended_on(systems: tuple[FittedSystem, ...], view: TrainingView, choosing: Documents) -> MembersSystem:
    """The systems with the weights that are best on the choosing notes."""
    log_odds = logits_of((view.label_counts() + UNSEEN) / (len(view.documents) + 2 * UNSEEN)).astype(np.float32)
    if are_many(len(choosing), len(view.codes)):
        pairs = pairs_said(systems, choosing, n_labels=len(view.codes))
        return MembersSystem(systems, log_odds, fit_blend_on(pairs, log_odds))
    scores = [probabilities(system, choosing, n_labels=len(view.codes)) for system in systems]
    return MembersSystem(systems, log_odds, fit_blend(scores, log_odds, choosing.targets(len(view.codes))))


def unpack_blend(packed: PackedSystem, members: tuple[FittedSystem, ...], *, labels: int) -> MembersSystem:
    """The blend that `pack` took apart."""
    blend = Blend(np.array(packed.arrays["weights"]), packed.options["trust"], packed.options["shift"])
    check_finite(packed.arrays)
    check_shape("weights", blend.weights, (len(members),))
    check_shape("log_odds", packed.arrays["log_odds"], (labels,))
    return MembersSystem(members, np.array(packed.arrays["log_odds"]), blend)
