"""Predict: the scores of the reported notes, with all that evaluation needs to believe them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plant.data.corpus import Corpus, Role, gold_codes, held_out
from plant.evaluate.scores.scored import KIND, Frame, Scored, load_scored, save_scored, scored_by_lists, scored_densely
from plant.steps.step import Step, Work, always
from plant.store.keeper import Kind
from plant.store.safetensors import MAX_IN_MEMORY
from plant.systems.coder import FittedCoder
from plant.types import Progress, silent

BEST = 1000  # codes of a note
MANY = 20_000  # codes from which on a note keeps its best ones only


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
    about: dict[str, Any] = {
        "ids": documents.ids,
        "codes": fitted.codes,
        "gold": gold_codes(corpus, role),
        "thresholds": fitted.thresholds,
        "train_counts": fitted.train_counts,
        "train_documents": fitted.train_documents,
        "codebook": fitted.codebook,
    }
    if len(fitted.codes) <= MANY and len(documents) * len(fitted.codes) <= MAX_IN_MEMORY:
        return scored_densely(fitted.probabilities(documents, progress=progress), **about, frame=frame)
    remark = f"Of each note the {BEST:,} best codes are kept: codes beyond count as ranked last."
    frame = replace(frame, remarks=(*frame.remarks, remark))
    return scored_by_lists(*fitted.best(documents, BEST, progress=progress), **about, frame=frame)


def _make(work: Work) -> Scored:
    coder, facts = work["coder"], work.settings.facts
    splits = coder.facts.get("splits", {})
    return score_role(coder, work["corpus"], Role.REPORT, system=facts["name"], splits=splits, progress=work.progress)


PREDICT = Step("predictions", _make, always("corpus", "coder"), kind=Kind(KIND, save_scored, load_scored))
