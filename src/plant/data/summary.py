"""What a corpus is like: counts by split, lengths, label skew, and what looks unhealthy."""

from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Corpus, Documents, Role
from plant.text.vocab import UNKNOWN

FEW = 10  # a code in fewer notes than this is rare


@dataclass(frozen=True)
class SplitSummary:
    """The figures of one split."""

    notes: int
    role: str  # several, joined by +, where a share of the split was held out
    codes: int
    codes_per_note: float
    tokens: int
    median_tokens: float
    longest: int
    unknown_share: float
    new_codes: int  # codes that no fitted note has


@dataclass(frozen=True)
class CorpusSummary:
    """The figures of a corpus, and sentences about what looks unhealthy."""

    splits: dict[str, SplitSummary]
    codes: int
    fitted_codes: int
    rare_codes: int
    vocabulary: int
    tokens: int
    tokens_lost: int
    described_codes: int
    health: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON, notes by split first."""
        by_split = {name: asdict(split) for name, split in self.splits.items()}
        rest = {key: value for key, value in asdict(self).items() if key != "splits"}
        return {"notes": {name: split.notes for name, split in self.splits.items()}, **rest, "splits": by_split}


def summarise(corpus: Corpus) -> CorpusSummary:
    """Count a corpus."""
    fitted = label_frequencies(corpus, corpus.role == Role.FIT)
    splits = {name: _split_summary(corpus, number, fitted) for number, name in enumerate(corpus.splits)}
    return CorpusSummary(
        splits=splits,
        codes=len(corpus.codes),
        fitted_codes=int((fitted > 0).sum()),
        rare_codes=int(((fitted > 0) & (fitted < FEW)).sum()),
        vocabulary=len(corpus.vocab),
        tokens=int(corpus.documents.token_starts[-1]),
        tokens_lost=corpus.tokens_lost,
        described_codes=sum(bool(corpus.codebook.description(code)) for code in corpus.codes),
        health=tuple(_health(corpus, splits)),
    )


def label_frequencies(corpus: Corpus, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
    """In how many of the chosen notes each label stands."""
    chosen = np.repeat(rows, np.diff(corpus.documents.label_starts))
    return np.bincount(corpus.documents.labels[chosen], minlength=len(corpus.codes))


def _split_summary(corpus: Corpus, number: int, fitted: NDArray[np.int64]) -> SplitSummary:
    rows = corpus.split == number
    lengths = np.diff(corpus.documents.token_starts)[rows]
    frequencies = label_frequencies(corpus, rows)
    tokens = corpus.documents.tokens[np.repeat(rows, np.diff(corpus.documents.token_starts))]
    return SplitSummary(
        notes=int(rows.sum()),
        role="+".join(Role(role).name.lower() for role in np.unique(corpus.role[rows])),
        codes=int((frequencies > 0).sum()),
        codes_per_note=float(frequencies.sum() / max(1, rows.sum())),
        tokens=int(lengths.sum()),
        median_tokens=float(np.median(lengths)),
        longest=int(lengths.max()),
        unknown_share=float((tokens == UNKNOWN).mean()) if len(tokens) else 0.0,
        new_codes=int(((frequencies > 0) & (fitted == 0)).sum()),
    )


def _health(corpus: Corpus, splits: dict[str, SplitSummary]) -> list[str]:
    documents = corpus.documents
    wordless = int((np.diff(documents.token_starts) == 0).sum())
    labelled = corpus.role != Role.UNLABELLED
    codeless = int(((np.diff(documents.label_starts) == 0) & labelled).sum())
    undescribed = sum(not corpus.codebook.description(code) for code in corpus.codes)
    twins = _repeated_texts(documents, np.flatnonzero(labelled))
    findings = [
        (wordless, f"{wordless:,} notes have no word"),
        (codeless, f"{codeless:,} notes of labelled splits have no code"),
        (undescribed, f"{undescribed:,} codes have no description"),
        (twins, f"{twins:,} notes repeat the words of another"),
        (corpus.tokens_lost, f"{corpus.tokens_lost:,} tokens were cut by prepare.max_tokens"),
    ]
    findings += [
        (split.unknown_share > 0.1, f"{100 * split.unknown_share:.0f} % of the words of {name} are unknown")
        for name, split in splits.items()
    ]
    return [sentence for found, sentence in findings if found]


def _repeated_texts(documents: Documents, rows: NDArray[np.intp]) -> int:
    seen = {blake2b(documents.tokens_of(row).tobytes(), digest_size=16).digest() for row in rows.tolist()}
    return len(rows) - len(seen)
