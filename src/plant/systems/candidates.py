"""Coding by candidates: a reader lists spans and the codes that they may mean, a judge decides.

See docs/models/candidates.md. What it believed is its evidence: the phrase, the codes that lost it, and why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates import packing
from plant.candidates.judge import Columns, Judge, columns_of, judge_note, unpack_judge
from plant.candidates.listing import Lister, list_rows, why_of
from plant.candidates.reader import Reader, unpack_reader
from plant.candidates.rows import Rows
from plant.candidates.said import KEPT, LOOKED, Heard, looks_of
from plant.candidates.words import words_of
from plant.data.corpus import Documents
from plant.errors import ArtifactError, InputError
from plant.evaluate.choosing.calibration import logits_of
from plant.evaluate.scores.of_texts import Sparse, Usual, sparse_of
from plant.store.checks import check_finite, check_shape
from plant.systems.system import JUDGED, FittedSystem, Growth, Known, PackedSystem, Reading, phrases_in, said
from plant.types import Evidence

TAG = "candidates"
LEAST = 1e-4  # the score of a candidate is at least this, that of a code without one less
MOST_PHRASES = 5
SHARE = 0.25  # of the best span's score, below which a span is no evidence
RIVALS = 3


@dataclass(frozen=True)
class JudgedNote:
    """A note as the judge left it."""

    rows: Rows
    codes: NDArray[np.int32]
    scores: NDArray[np.float32]  # of the codes
    of_rows: NDArray[np.float32]


@dataclass(frozen=True)
class CandidatesReading:
    """Notes with their judged candidates."""

    system: "CandidatesSystem"
    documents: Documents
    notes: tuple[JudgedNote, ...]

    @cached_property
    def text_scores(self) -> Sparse:
        found = [(note.codes, np.maximum(note.scores, LEAST)) for note in self.notes]
        return sparse_of(found, self.system.usual)

    @property
    def scores(self) -> NDArray[np.float32]:
        return self.text_scores.filled()

    @property
    def known(self) -> int:
        return len(self.system.codes)

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        """The score of the best span that each token stands in."""
        if explainer not in ("", JUDGED):
            raise InputError(f"candidates explain themselves by {JUDGED!r} only, not by {explainer!r}")
        place = slice(self.documents.token_starts[row], self.documents.token_starts[row + 1])
        starts, ends = self.documents.char_starts[place], self.documents.char_ends[place]
        weights = np.zeros((len(labels), len(starts)), np.float32)
        note = self.notes[row]
        for asked, label in enumerate(labels):
            for span in _spans_of(note, label):
                inside = (starts < note.rows.end[span]) & (ends > note.rows.start[span])
                weights[asked, inside] = np.maximum(weights[asked, inside], note.of_rows[span])
        return weights

    def phrases(self, row: int, label: int) -> tuple[Evidence, ...]:
        """The spans that the judge believed for a label, best first, with the codes that lost them and why it won."""
        note, text = self.notes[row], self.documents.text_of(row)
        spans = _apart(note.rows, _spans_of(note, label))[:MOST_PHRASES]
        total = sum(float(note.of_rows[span]) for span in spans) or 1.0
        return tuple(
            Evidence(
                start=int(note.rows.start[span]),
                end=int(note.rows.end[span]),
                text=text[note.rows.start[span] : note.rows.end[span]],
                weight=round(float(note.of_rows[span]) / total, 6),
                why=why_of(self.system.lister, note.rows.features[span]),
                rivals=tuple(self.system.codes[code] for code in _rivals(note, span)),
            )
            for span in spans
        )


def _spans_of(note: JudgedNote, label: int) -> list[int]:
    """The rows that speak for a label, best first."""
    own = np.flatnonzero((note.rows.code == label) & (note.rows.first >= 0))
    if not len(own):
        return []
    strong = own[note.of_rows[own] >= SHARE * note.of_rows[own].max()]
    return strong[np.argsort(-note.of_rows[strong], kind="stable")].tolist()


def _apart(rows: Rows, spans: Sequence[int]) -> list[int]:
    """Those that overlap no better one."""
    kept: list[int] = []
    for span in spans:
        if all(rows.first[span] >= rows.last[other] or rows.last[span] <= rows.first[other] for other in kept):
            kept.append(span)
    return kept


def _rivals(note: JudgedNote, span: int) -> list[int]:
    """Other codes of just this span, best first."""
    rows = note.rows
    same = (rows.first == rows.first[span]) & (rows.last == rows.last[span]) & (rows.code != rows.code[span])
    others = np.flatnonzero(same)
    best = others[np.argsort(-note.of_rows[others], kind="stable")]
    return list(dict.fromkeys(rows.code[best].tolist()))[:RIVALS]


@dataclass(frozen=True)
class CandidatesSystem:
    """A reader, judges, and systems whose scores of whole notes the judges have learned to weigh."""

    reader: Reader
    judges: tuple[Judge, ...]
    codes: tuple[str, ...]
    shares: NDArray[np.float32]  # of fitted notes that have each code
    coding: str  # the coding system
    names: tuple[str, ...] = ()  # of the scorers
    scorers: tuple[FittedSystem, ...] = ()

    takes_codes = True

    @property
    def matches_names(self) -> bool:
        return any(scorer.matches_names for scorer in self.scorers)

    def read(self, documents: Documents, *, evidence: bool = False) -> CandidatesReading:
        if not documents.text.size and len(documents):
            raise InputError("candidates are looked for in texts: prepare the corpus with prepare.keep_text = true")
        heard = [list(heard_in(scorer.read(documents, evidence=True), documents)) for scorer in self.scorers]
        notes = tuple(self._judged(documents, row, [own[row] for own in heard]) for row in range(len(documents)))
        return CandidatesReading(self, documents, notes)

    @cached_property
    def usual(self) -> Usual:
        """The score of codes that are no candidates: below any that are, by how frequent they are."""
        return Usual((LEAST * self.shares).astype(np.float32), known=len(self.codes))

    def _judged(self, documents: Documents, row: int, said: Sequence[Heard]) -> JudgedNote:
        text = documents.text_of(row)
        rows = list_rows(self.lister, text, words_of(text, self.reader.stem), said)
        return JudgedNote(rows, *judge_note(self.judges, rows, self.columns))

    @cached_property
    def lister(self) -> Lister:
        """The reader for the codes of this coder."""
        return Lister(self.reader, self.codes, self.names)

    @cached_property
    def columns(self) -> Columns:
        """What level 2 needs to know of codes."""
        return columns_of(self.codes, self.lister.features, self.coding)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "CandidatesSystem":
        return self

    def with_codes(self, growth: Growth) -> "CandidatesSystem":
        known = growth.known
        named = {code: known.codebook.names(code) for code in known.codes[growth.n_codes :]}
        new = {code: names for code, names in named.items() if names}  # others are put together from parts
        return replace(
            self,
            reader=self.reader.with_names(new),
            codes=known.codes,
            shares=np.concatenate([self.shares, np.zeros(growth.further, np.float32)]),
            scorers=tuple(scorer.with_codes(growth) for scorer in self.scorers) if new else self.scorers,
        )

    def pack(self) -> PackedSystem:
        reader, judges = self.reader.pack(), [judge.pack() for judge in self.judges]
        arrays = {"shares": self.shares} | packing.under("reader", reader[1])
        for number, (_, own) in enumerate(judges):
            arrays |= packing.under(_judge_name(number), own)
        judged = [own for own, _ in judges]
        options = {
            "coding": self.coding,
            "names": list(self.names),
            "reader": reader[0],
            "judges": judged,
            "looks": True,
        }
        return PackedSystem(TAG, options, arrays, tuple(scorer.pack() for scorer in self.scorers))


def heard_in(reading: Reading, documents: Documents) -> Iterator[Heard]:
    """For each document the codes that a scorer puts first, of those that it knows, and where it looked for them."""
    log_odds = said(reading).changed(lambda scores: logits_of(scores).astype(np.float32))
    unknown = log_odds.n_labels - reading.known
    for row in range(len(documents)):
        best = log_odds.best(row, KEPT + unknown)
        labels = best[best < reading.known][:KEPT]
        first = labels[:LOOKED].tolist()
        looks = looks_of(first, phrases_in(reading, row, first, documents, row))
        yield Heard(labels.astype(np.int32), log_odds.of(row, labels), looks)


def _judge_name(number: int) -> str:
    return f"judge{number}" if number else "judge"


def unpack_candidates(packed: PackedSystem, known: Known, scorers: tuple[FittedSystem, ...]) -> CandidatesSystem:
    """The system that `pack` took apart."""
    options: Mapping[str, Any] = packed.options
    if scorers and not options.get("looks"):
        raise ArtifactError("the judge of the folder never heard where scorers look: fit it again with plant run")
    check_shape("shares", packed.arrays["shares"], (len(known.codes),))
    check_finite({"shares": packed.arrays["shares"]})
    judges = options["judges"] if "judges" in options else [options["judge"]]  # there was one in earlier versions
    return CandidatesSystem(
        reader=unpack_reader(options["reader"], packing.part("reader", packed.arrays)),
        judges=tuple(
            unpack_judge(own, packing.part(_judge_name(number), packed.arrays)) for number, own in enumerate(judges)
        ),
        codes=known.codes,
        shares=np.array(packed.arrays["shares"]),
        coding=options["coding"],
        names=tuple(options["names"]),
        scorers=scorers,
    )
