"""What a reader lists for a note: spans with the codes that they may mean, as rows of features."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plant.candidates.name_features import FLAGS, NAME_FEATURES
from plant.candidates.places import find_places
from plant.candidates.reader import Reader, TaughtNote
from plant.candidates.rows import Rows
from plant.candidates.span_features import SPAN_FEATURES, span_features
from plant.candidates.suggesting import read_names
from plant.candidates.words import NoteWords

REGRESSION = "note regression"
MAXIMA = ("probability", "folded share", "product")  # features of rows whose maximum counts for the note
WHY = {
    "folded": "marked words", "stemmed": "marked words", "bag": "marked words in another order", "book": "a name",
    "book bag": "a name in another order", "nearest": "words like a name", "composed": "parts of names",
}  # fmt: skip
BEYOND = 10  # codes of each scorer of notes that are candidates though no span speaks for them


@dataclass(frozen=True)
class Lister:
    """A reader for a coder of certain codes; `scorers` name what else says something of whole notes."""

    reader: Reader
    codes: tuple[str, ...]
    scorers: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> dict[str, int]:
        """The column of each code."""
        return {code: column for column, code in enumerate(self.codes)}

    @cached_property
    def named(self) -> NDArray[np.int32]:
        """The column of each code of the namer; -1 where the coder does not know it."""
        return np.array([self.columns.get(code, -1) for code in self.reader.namer.codes], np.int32)

    @cached_property
    def regressed(self) -> NDArray[np.int32]:
        """The column of each code of the regression."""
        return np.array([self.columns.get(code, -1) for code in self.reader.codes], np.int32)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features of a row."""
        said = [f"{scorer} {what}" for scorer in (REGRESSION, *self.scorers) for what in ("score", "rank")]
        return (*SPAN_FEATURES, *NAME_FEATURES, *said)


def list_rows(lister: Lister, words: NoteWords, scores: NDArray[np.float32]) -> Rows:
    """The candidates of a note; `scores` [scorers, codes] are what others say of it."""
    reader = lister.reader
    places = find_places(reader.finder, words)
    spans = [slice(first, last) for first, last in zip(places.first.tolist(), places.last.tolist(), strict=True)]
    suggested = read_names(reader.namer, [(words.folded[span], words.stems[span]) for span in spans])
    listed = suggested.code < len(lister.named)  # others were put together from parts: the coder has no such column
    code = np.where(listed, lister.named[np.where(listed, suggested.code, 0)], -1)
    kept = code >= 0
    code, span = code[kept], suggested.span[kept]
    said = _said(lister, words, scores)
    of_spans = span_features(places, words, {}, np.zeros(len(words) + 1, np.int64))
    features = np.concatenate([of_spans[span], suggested.features[kept], said[:, code].T], axis=1)
    first, last = places.first[span], places.last[span]
    placed = Rows(first, last, words.starts[first], words.ends[last - 1], code, features)
    return _with_others(placed, said, n_others=len(SPAN_FEATURES) + len(NAME_FEATURES))


def why_of(lister: Lister, features: NDArray[np.float32]) -> str:
    """In which way the words of a row came to mean its code: the most direct one."""
    names = lister.features
    return next((WHY[way] for way in FLAGS if features[names.index(f"by {way}")] > 0), "")


def right_rows(rows: Rows, note: TaughtNote) -> NDArray[np.bool_]:
    """Whether the words of each row were marked for its code; a code without a mark is right wherever it is listed."""
    right = np.zeros(len(rows), bool)
    marked: set[int] = set()
    for mention in note.mentions:
        marked.add(mention.label)
        right |= (rows.code == mention.label) & (rows.first < mention.last) & (rows.last > mention.first)
    unmarked = np.array(sorted(note.labels - marked), np.int32)
    return right | np.isin(rows.code, unmarked)


def _said(lister: Lister, words: NoteWords, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """What scorers say of each code of a note, and its rank among all codes by each, [scorers x 2, codes]."""
    regression = np.zeros(len(lister.codes), np.float32)
    if lister.reader.regression is not None:
        found, known = lister.reader.regression.scores(words.stems), lister.regressed >= 0
        regression[lister.regressed[known]] = found[known]
    rows: list[NDArray[np.float32]] = []
    for said in (regression, *scores):
        rank = np.empty(len(said), np.float32)
        rank[np.argsort(-said, kind="stable")] = np.arange(len(said))
        rows += [said, np.where(np.isnan(said), np.nan, rank).astype(np.float32)]
    return np.stack(rows)


def _with_others(placed: Rows, said: NDArray[np.float32], *, n_others: int) -> Rows:
    """The rows, and one without a place for each code that scorers put first and no span speaks for."""
    best = np.unique(np.concatenate([np.flatnonzero(rank < BEYOND) for rank in said[1::2]]))
    others = np.setdiff1d(best, placed.code).astype(np.int32)
    nothing = np.full((len(others), n_others), np.nan, np.float32)
    nowhere = np.full(len(others), -1, np.int32)
    return Rows(
        first=np.concatenate([placed.first, nowhere]),
        last=np.concatenate([placed.last, nowhere]),
        start=np.concatenate([placed.start, nowhere]),
        end=np.concatenate([placed.end, nowhere]),
        code=np.concatenate([placed.code, others]),
        features=np.concatenate([placed.features, np.concatenate([nothing, said[:, others].T], axis=1)]),
    )
