"""What became of every note's codes, with the names of both: all that comparing systems asks, as JSON too.

JSON names neither notes nor codes but by digests: enough to lay runs on the same notes side by side.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.scores.forms import UNRANKED
from plant.evaluate.scores.lists import Lists, lists_of
from plant.evaluate.scores.outcome import Outcome, outcome_of
from plant.evaluate.scores.scored import Scored


@dataclass(frozen=True)
class Result:
    """An outcome without areas, and what its documents and labels are called."""

    ids: tuple[str, ...]
    codes: tuple[str, ...]
    outcome: Outcome


def result_of(scored: Scored) -> Result:
    """The result of scored documents."""
    return Result(tuple(scored.ids), tuple(scored.codes), outcome_of(replace(scored, codebook=None), areas=False))


def result_as_json(result: Result) -> dict[str, Any]:
    """Gold codes of each document, their ranks (0: in no list), and accepted codes; no code that is neither.

    What documents and codes are called is told by digests, so that figures of notes may lie where notes may not.
    """
    outcome, active = result.outcome, result.outcome.active
    gold, accepted = (np.searchsorted(active, lists.labels) for lists in (outcome.gold, outcome.accepted))
    ranks = np.where(outcome.ranks == UNRANKED, 0, outcome.ranks)
    return {
        "documents": _digests(result.ids),
        "codes": _digests(result.codes[label] for label in active),
        "fitted notes of codes": outcome.train_counts[active].tolist(),
        "fitted notes": outcome.train_documents,
        "gold": _rows(gold, outcome.gold),
        "ranks": _rows(ranks, outcome.gold),
        "accepted": _rows(accepted, outcome.accepted),
    }


def result_from_json(found: Mapping[str, Any]) -> Result:
    """The result that `result_as_json` told of, under digests of its names."""
    codes = tuple(found["codes"])
    ranks = np.array([rank for row in found["ranks"] for rank in row], np.int64)
    outcome = Outcome(
        n_labels=len(codes),
        gold=lists_of(found["gold"]),
        ranks=np.where(ranks == 0, UNRANKED, ranks),
        accepted=lists_of(found["accepted"]),
        train_counts=np.array(found["fitted notes of codes"], np.int64),
        train_documents=found["fitted notes"],
    )
    return Result(tuple(found["documents"]), codes, outcome)


def _rows(values: NDArray[np.integer], lists: Lists) -> Sequence[Sequence[int]]:
    return [part.tolist() for part in np.split(values, lists.starts[1:-1])]


def _digests(names: Iterable[str]) -> list[str]:
    return [hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12] for name in names]
