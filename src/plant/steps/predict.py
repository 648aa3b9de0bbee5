"""Predict: the scores of the reported notes, with all that evaluation needs to believe them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.data.corpus import Corpus, Role, gold_codes, held_out
from plant.evaluate.scores.scored import KIND, Frame, Scored, load_scored, save_scored, scored_by_lists, scored_densely
from plant.steps.step import Step, Work, always
from plant.store.keeper import Kind
from plant.systems.coder import FittedCoder
from plant.types import Progress, silent

MAX_IN_MEMORY = 125_000_000  # scores: half a gigabyte; beyond, the best codes of each note are kept
BEST, LEAST = 1000, 100  # codes of a note, at most and at least
ENTRIES = 4_000_000  # in all lists together; a report sorts them several times
MANY = 20_000  # codes from which on a note keeps its best ones only, however few notes there are


def score_role(
    fitted: FittedCoder,
    corpus: Corpus,
    role: Role,
    *,
    system: str,
    splits: Mapping[str, Any],
    progress: Progress = silent,
) -> Scored:
    """The notes of a role under a coder; codes that no fitted note has count as missed."""
    documents = held_out(corpus, role, fitted.codes)
    if len(fitted.vocab) > len(corpus.vocab):
        documents = fitted.reread(documents)
    history: list[dict[str, Any]] = next(iter(fitted.facts.get("history", {}).values()), [])
    frame = Frame(
        system=system,
        seed=fitted.recipe.seed,
        threshold=float(fitted.thresholds[0]) if len(set(fitted.thresholds.tolist())) == 1 else None,
        threshold_origin=fitted.facts["threshold_origin"],
        temperature=fitted.temperature if fitted.recipe.choose.calibrate else None,
        splits=splits,
        history=tuple(
            {"epoch": row["number"], "loss": row["loss"], "loss of the choosing notes": row["measures"]["loss"]}
            for row in history
        ),
    )
    known = Scoring(
        ids=tuple(documents.ids),
        codes=fitted.codes,
        gold=gold_codes(corpus, role),
        thresholds=fitted.thresholds,
        train_counts=fitted.train_counts,
        train_documents=fitted.train_documents,
        codebook=fitted.codebook,
        frame=frame,
    )
    if len(fitted.codes) <= MANY and len(documents) * len(fitted.codes) <= MAX_IN_MEMORY:
        return scored_densely(fitted.probabilities(documents, progress=progress), **vars(known))
    most = min(len(fitted.codes), BEST, max(LEAST, ENTRIES // max(1, len(documents))))
    return scored_by_lists(*fitted.best(documents, most=most, progress=progress), **vars(best_only(known, most)))


@dataclass(frozen=True)
class Scoring:
    """All but the scores that evaluation reads."""

    ids: tuple[str, ...]
    codes: tuple[str, ...]
    gold: list[tuple[str, ...]]
    thresholds: NDArray[np.float32]
    train_counts: NDArray[np.int64]
    train_documents: int
    codebook: CodeBook
    frame: Frame


def best_only(known: Scoring, most: int) -> Scoring:
    """The same with a remark that only the best codes of each document are kept: all scores would be too many."""
    remark = f"Of each note the {most:,} best codes are kept: codes beyond count as ranked last."
    return replace(known, frame=replace(known.frame, remarks=(*known.frame.remarks, remark)))


def _make(work: Work) -> Scored:
    coder, facts = work["coder"], work.settings.facts
    splits = coder.facts.get("splits", {})
    return score_role(coder, work["corpus"], Role.REPORT, system=facts["name"], splits=splits, progress=work.progress)


PREDICT = Step("predictions", _make, always("corpus", "coder"), kind=Kind(KIND, save_scored, load_scored))
