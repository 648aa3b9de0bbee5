"""Scored documents: all that evaluation reads, in memory and on disk."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.errors import InputError
from plant.evaluate.scores.forms import Constant, Dense, RankedLists, check_scores, ranked
from plant.evaluate.scores.lists import Lists, Mask, lists_of
from plant.store.artifact import Artifact, Manifest, open_artifact, save_artifact
from plant.store.checks import check_length, check_numbers, check_starts, well_formed

KIND = "predictions"


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Frame:
    """What has to stand beside the numbers: who scored, how it was tuned, on which split."""

    system: str = ""  # the recipe's name
    seed: int | None = None
    threshold: float | None = None  # the global one; None where there are others, or flags
    threshold_origin: str = "not stated"  # such as "micro-F1 on dev"
    temperature: float | None = None  # of the calibration on dev
    splits: Mapping[str, Any] = field(default_factory=_nothing)  # the split manifest
    remarks: tuple[str, ...] = ()
    history: tuple[Mapping[str, float], ...] = ()  # one row per epoch: "epoch", "loss", ...
    explanations: Mapping[str, Mapping[str, float]] = field(default_factory=_nothing)  # explainer -> measure -> value


@dataclass(frozen=True)
class Scored:
    """Documents with the codes they should have and the scores they got.

    Labels number `codes`. Codes that the system cannot score (no training note has them) stand at the end: they are
    gold somewhere, and count as missed. `train_documents` is 0 where nothing is known of the training notes.
    """

    ids: tuple[str, ...]
    codes: tuple[str, ...]
    gold: Lists  # sorted, without repeats
    scores: Dense | RankedLists | Constant
    train_counts: NDArray[np.int64]  # training notes per code
    train_documents: int = 0
    codebook: CodeBook | None = None
    frame: Frame = field(default_factory=Frame)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_labels(self) -> int:
        """Number of codes: scored, or gold somewhere."""
        return len(self.codes)

    def only(self, kept: Mask) -> "Scored":
        """The same documents with some of the codes; the others are neither gold nor predicted."""
        numbers = np.where(kept, np.cumsum(kept) - 1, -1)
        return replace(
            self,
            codes=tuple(code for code, keep in zip(self.codes, kept, strict=True) if keep),
            gold=self.gold.renumbered(numbers),
            scores=self.scores.only(kept),
            train_counts=self.train_counts[kept],
        )

    def without(self, codes: Iterable[str]) -> "Scored":
        """The same documents as if these codes did not exist."""
        gone = frozenset(codes)
        return self.only(np.array([code not in gone for code in self.codes], dtype=bool))


def scored_densely(
    values: NDArray[np.floating],
    *,
    ids: Sequence[str],
    codes: Sequence[str],
    gold: Sequence[Iterable[str]],
    thresholds: float | NDArray[np.floating],
    train_counts: NDArray[np.integer] | None = None,
    train_documents: int = 0,
    codebook: CodeBook | None = None,
    frame: Frame | None = None,
) -> Scored:
    """Scored documents from a matrix, documents x `codes`; `gold` may hold other codes, which count as missed."""
    check_scores(values, tuple(ids))
    scores = Dense(values.astype(np.float32, copy=False), _per_label(thresholds, len(codes)))
    return _scored(scores, ids, codes, gold, train_counts, train_documents, codebook, frame)


def scored_by_lists(
    labels: NDArray[np.integer],
    values: NDArray[np.floating],
    *,
    ids: Sequence[str],
    codes: Sequence[str],
    gold: Sequence[Iterable[str]],
    thresholds: float | NDArray[np.floating],
    train_counts: NDArray[np.integer] | None = None,
    train_documents: int = 0,
    codebook: CodeBook | None = None,
    frame: Frame | None = None,
) -> Scored:
    """Scored documents from the arrays of a top-k: documents x k labels and their scores, best first."""
    check_scores(values, tuple(ids))
    scores = ranked(labels, values, thresholds=_per_label(thresholds, len(codes)))
    return _scored(scores, ids, codes, gold, train_counts, train_documents, codebook, frame)


def save_scored(scored: Scored, path: Path | str, *, recipe: Mapping[str, Any], inputs: Mapping[str, str]) -> Manifest:
    """Write a predictions folder, which is what `plant evaluate RUN` reads at `RUN/predictions`."""
    files = {"documents.json": json.dumps({"ids": scored.ids, "codes": scored.codes}, ensure_ascii=False)}
    if scored.codebook is not None:
        files["codebook.jsonl"] = codebook_to_jsonl(scored.codebook)
    facts = {
        "documents": len(scored),
        "codes": scored.n_labels,
        "train_documents": scored.train_documents,
        "frame": _frame_facts(scored.frame),
    }
    tensors = _score_tensors(scored.scores) | {
        "gold_labels": scored.gold.labels,
        "gold_starts": scored.gold.starts,
        "train_counts": scored.train_counts,
    }
    return save_artifact(path, KIND, tensors=tensors, files=files, recipe=recipe, inputs=inputs, facts=facts)


def load_scored(path: Path | str) -> Scored:
    """Open a predictions folder; a dense matrix stays on disk and is read block by block."""
    artifact = open_artifact(path, KIND)
    with well_formed(path):
        scored = _opened(artifact)
        check_starts("gold_starts", scored.gold.starts, len(scored.gold.labels), rows=len(scored.ids))
        check_numbers("gold_labels", scored.gold.labels, len(scored.codes))
        check_length("train_counts", scored.train_counts, len(scored.codes))
    return scored


def _opened(artifact: Artifact) -> Scored:
    names = artifact.table("documents.json")
    facts, tensors = artifact.manifest.facts, artifact.tensors
    return Scored(
        ids=tuple(names["ids"]),
        codes=tuple(names["codes"]),
        gold=Lists(np.asarray(tensors["gold_labels"]), np.asarray(tensors["gold_starts"])),
        scores=_scores_of(artifact),
        train_counts=np.asarray(tensors["train_counts"]),
        train_documents=facts["train_documents"],
        codebook=_codebook_of(artifact),
        frame=_frame(facts["frame"]),
    )


def _scored(
    scores: Dense | RankedLists,
    ids: Sequence[str],
    codes: Sequence[str],
    gold: Sequence[Iterable[str]],
    train_counts: NDArray[np.integer] | None,
    train_documents: int,
    codebook: CodeBook | None,
    frame: Frame | None,
) -> Scored:
    if len(ids) != len(gold):
        raise InputError(f"{len(ids)} documents but gold codes of {len(gold)}")
    all_codes = tuple(dict.fromkeys([*codes, *(code for row in gold for code in sorted(row))]))
    counts = np.zeros(len(all_codes), np.int64)
    if train_counts is not None:
        counts[: len(codes)] = train_counts
    return Scored(
        tuple(ids), all_codes, gold_lists(gold, all_codes), scores, counts, train_documents, codebook, frame or Frame()
    )


def gold_lists(gold: Iterable[Iterable[str]], codes: Sequence[str]) -> Lists:
    """Sorted label numbers of each document's codes."""
    number = {code: label for label, code in enumerate(codes)}
    return lists_of([sorted({number[code] for code in row}) for row in gold])


def _per_label(thresholds: float | NDArray[np.floating], n_labels: int) -> NDArray[np.float32]:
    return np.broadcast_to(np.asarray(thresholds, dtype=np.float32), (n_labels,))


def _score_tensors(scores: Dense | RankedLists | Constant) -> dict[str, NDArray[Any]]:
    if isinstance(scores, Dense):
        return {"scores": scores.values, "thresholds": np.ascontiguousarray(scores.thresholds)}
    if isinstance(scores, Constant):
        raise TypeError("a prior is computed from the training counts, not saved")
    lists: dict[str, NDArray[Any]] = {
        "listed": scores.lists.labels,
        "listed_starts": scores.lists.starts,
        "accepted": scores.flags,
    }
    return lists if scores.values is None else lists | {"listed_scores": scores.values}


def _scores_of(artifact: Artifact) -> Dense | RankedLists:
    tensors = artifact.tensors
    if "scores" in tensors:
        return Dense(tensors["scores"], np.asarray(tensors["thresholds"]))
    lists = Lists(np.asarray(tensors["listed"]), np.asarray(tensors["listed_starts"]))
    values = np.asarray(tensors["listed_scores"]) if "listed_scores" in tensors else None
    return RankedLists(lists, np.asarray(tensors["accepted"]), values)


def _codebook_of(artifact: Artifact) -> CodeBook | None:
    if "codebook.jsonl" not in artifact.manifest.files:
        return None
    return codebook_from_jsonl(artifact.text("codebook.jsonl"))


def _frame_facts(frame: Frame) -> dict[str, Any]:
    """The frame as plain tables; read-only maps, which JSON does not know, become dictionaries."""
    tables = {
        "splits": dict(frame.splits),
        "explanations": {name: dict(row) for name, row in frame.explanations.items()},
    }
    return {**{f.name: getattr(frame, f.name) for f in fields(frame)}, **tables}


def _frame(facts: Mapping[str, Any]) -> Frame:
    return Frame(**{**facts, "remarks": tuple(facts["remarks"]), "history": tuple(facts["history"])})
