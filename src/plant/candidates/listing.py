"""What a reader lists for a note: spans with the codes that they may mean, as rows of features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plant.candidates.name_features import FLAGS, NAME_FEATURES
from plant.candidates.places import Places, find_places
from plant.candidates.reader import Reader, TaughtNote
from plant.candidates.rows import Rows
from plant.candidates.said import Heard, heard_of, in_columns
from plant.candidates.span_features import SPAN_FEATURES, span_features
from plant.candidates.suggesting import read_names
from plant.candidates.wording import Wording
from plant.candidates.words import NoteWords
from plant.codes.parts import code_parts
from plant.text.acronyms import defined_acronyms

REGRESSION = "note regression"
LOOK = "look"  # the share of what a scorer looked at for the code that met the words of a row
WHY = {
    "folded": "marked words", "stemmed": "marked words", "bag": "marked words in another order", "book": "a name",
    "book bag": "a name in another order", "nearest": "words like a name", "composed": "parts of names",
}  # fmt: skip
ROW_FEATURES = ("lent", "grades agree")  # words that an acronym stands for; the code's grade beside that of the text
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

    def put_together(self, codes: Sequence[str]) -> NDArray[np.int32]:
        """The columns of codes that the reader has put together from parts; -1 where none can be taken.

        Where parts are not free, a column that no reader knew of would be there for the very notes that have the code.
        """
        free = code_parts(self.reader.namer.system).free
        return np.array([self.columns.get(code, -1) if free else -1 for code in codes], np.int32)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features of a row."""
        return row_features(self.scorers)

    @cached_property
    def grades(self) -> NDArray[np.float32]:
        """The grade that each code has; not a number where it has none, or the coding system knows none."""
        parts = code_parts(self.reader.namer.system)
        place = parts.names.index("grade") if "grade" in parts.names else None
        own = [parts.split(code)[place] if place is not None else "" for code in self.codes]
        return np.array([int(grade) if grade else np.nan for grade in own], np.float32)


def row_features(scorers: Sequence[str]) -> tuple[str, ...]:
    """The names of the features of a row, which the scorers of whole notes add to."""
    said = [f"{scorer} {what}" for scorer in (REGRESSION, *scorers) for what in ("score", "rank")]
    return (*SPAN_FEATURES, *ROW_FEATURES, *NAME_FEATURES, *said, *(f"{scorer} {LOOK}" for scorer in scorers))


def list_rows(lister: Lister, text: str, words: NoteWords, said: Sequence[Heard]) -> Rows:
    """The candidates of a note; `said` is what each scorer says of it."""
    reader = lister.reader
    places = find_places(reader.finder, words)
    lent = lent_wordings(text, words, places)
    suggested = read_names(reader.namer, [*_wordings(words, places), *(wording for _, wording in lent)])
    code = np.concatenate([lister.named, lister.put_together(suggested.unlisted)])[suggested.code]
    kept = code >= 0
    code, is_lent = code[kept], suggested.span[kept] >= len(places)
    span = np.concatenate([np.arange(len(places)), [place for place, _ in lent]]).astype(np.int64)[suggested.span[kept]]
    heard = (_regression(lister, words), *said)
    of_spans = span_features(places, text, words, language=reader.language)
    own = np.stack([is_lent, _grades_agree(lister, of_spans[span], code)], axis=1)
    features = np.concatenate(
        [of_spans[span], own, suggested.features[kept], in_columns(heard, code).T], axis=1, dtype=np.float32
    )
    first, last = places.first[span], places.last[span]
    placed = Rows(first, last, words.starts[first], words.ends[last - 1], code, features)
    return _with_looks(_with_others(placed, heard, words), said)


def lent_wordings(text: str, words: NoteWords, places: Places) -> list[tuple[int, Wording]]:
    """Spans that are acronyms which the note itself writes out, by number, with the words that they stand for."""
    meant: dict[str, Wording] = {}
    for definition in defined_acronyms(text):
        long = slice(
            int(np.searchsorted(words.ends, definition.long_start, side="right")),
            int(np.searchsorted(words.starts, definition.long_end, side="left")),
        )
        meant.setdefault(definition.short, (words.folded[long], words.stems[long]))
    alone = np.flatnonzero(places.last - places.first == 1).tolist() if meant else []
    found = [(span, meant.get(words.surfaces[places.first[span]])) for span in alone]
    return [(span, wording) for span, wording in found if wording and wording[0]]


def _wordings(words: NoteWords, places: Places) -> list[Wording]:
    spans = [slice(first, last) for first, last in zip(places.first.tolist(), places.last.tolist(), strict=True)]
    return [(words.folded[span], words.stems[span]) for span in spans]


def _grades_agree(lister: Lister, of_spans: NDArray[np.float32], code: NDArray[np.int32]) -> NDArray[np.float32]:
    """Whether the grade in a span, or else behind it, is the code's: 1, -1, or not a number where either has none."""
    inside, behind = (of_spans[:, SPAN_FEATURES.index(name)] for name in ("grade inside", "grade behind"))
    written, own = np.where(np.isnan(inside), behind, inside), lister.grades[code]
    return np.where(np.isnan(written) | np.isnan(own), np.nan, np.where(written == own, 1, -1)).astype(np.float32)


def why_of(lister: Lister, features: NDArray[np.float32]) -> str:
    """In which way the words of a row came to mean its code: the most direct one."""
    names = lister.features
    looked = (f"where {scorer} looked" for scorer in lister.scorers if features[names.index(f"{scorer} {LOOK}")] > 0)
    return next((WHY[way] for way in FLAGS if features[names.index(f"by {way}")] > 0), next(looked, ""))


def right_rows(rows: Rows, note: TaughtNote) -> NDArray[np.bool_]:
    """Whether the words of each row were marked for its code; a code without a mark is right wherever it is listed."""
    right = np.zeros(len(rows), bool)
    marked: set[int] = set()
    for mention in note.mentions:
        marked.add(mention.label)
        right |= (rows.code == mention.label) & (rows.first < mention.last) & (rows.last > mention.first)
    unmarked = np.array(sorted(note.labels - marked), np.int32)
    return right | np.isin(rows.code, unmarked)


def _regression(lister: Lister, words: NoteWords) -> Heard:
    """What the reader's own regression says of the codes of a note."""
    # a code that no note of the reader has is not even ranked: its column would tell whether other notes have it
    if lister.reader.regression is None:
        return Heard(np.zeros(0, np.int32), np.zeros(0, np.float32))
    found, known = lister.reader.regression.scores(words.stems), lister.regressed >= 0
    return heard_of(lister.regressed[known], found[known].astype(np.float32))


def _with_others(placed: Rows, heard: Sequence[Heard], words: NoteWords) -> Rows:
    """The rows, and one for each code that scorers put first and no span speaks for.

    It stands where a scorer looked for the code, and has no place where none did.
    """
    best = np.unique(np.concatenate([one.labels[:BEYOND] for one in heard]))
    others = np.setdiff1d(best, placed.code).astype(np.int32)
    said = in_columns(heard, others)
    nothing = np.full((len(others), placed.features.shape[1] - len(said)), np.nan, np.float32)
    first, last = _looked_at(others, heard, words)
    there = first >= 0
    start = np.where(there, words.starts[np.where(there, first, 0)] if there.any() else -1, -1)
    end = np.where(there, words.ends[np.where(there, last - 1, 0)] if there.any() else -1, -1)
    return Rows(
        first=np.concatenate([placed.first, first]),
        last=np.concatenate([placed.last, last]),
        start=np.concatenate([placed.start, start]).astype(np.int32),
        end=np.concatenate([placed.end, end]).astype(np.int32),
        code=np.concatenate([placed.code, others]),
        features=np.concatenate([placed.features, np.concatenate([nothing, said.T], axis=1)]),
    )


def _looked_at(
    labels: NDArray[np.int32], heard: Sequence[Heard], words: NoteWords
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Words [first, last) at which the first scorer that did so looked most for each label; -1 where none did."""
    strongest: dict[int, tuple[int, int]] = {}
    for one in heard:
        for label, start, end in zip(one.looks.label.tolist(), one.looks.start, one.looks.end, strict=True):
            first = int(np.searchsorted(words.ends, start, side="right"))
            last = int(np.searchsorted(words.starts, end, side="left"))
            if first < last:
                strongest.setdefault(label, (first, last))
    found = np.array([strongest.get(label, (-1, -1)) for label in labels.tolist()], np.int32).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _with_looks(rows: Rows, said: Sequence[Heard]) -> Rows:
    """The rows with what of each scorer's looks for their codes met their words."""
    looks = [one.looks.shares(rows.code, rows.start, rows.end) for one in said]
    return replace(rows, features=np.concatenate([rows.features, *(own[:, None] for own in looks)], axis=1))
