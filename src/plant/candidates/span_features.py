"""What speaks for a span as a mention, whatever its code: features of level 1 that the spans of a note share."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from plant.candidates.places import Places
from plant.candidates.words import NoteWords
from plant.text.cues import FAR, FoundCues, cue_distances, load_cues
from plant.text.grades import find_grades
from plant.text.sections import sections_of

BEFORE = ("negation", "family", "hypothesis", "history", "metastasis", "grade")  # cues that count before a span
AFTER = ("negation", "metastasis", "grade", "stage")
REACH = 10  # words behind a span in which a grade is its grade
SECTIONS = 64  # sections are told apart by a number below
SPAN_FEATURES = (
    "probability", "on path", "inside", "overlapping", "containing", "words", "marked share", "marked",
    "stems marked share", "stems marked", "named", "capitals", "place", "section", "grade inside", "grade behind",
    "spread inside", "spread behind",
    *(f"{cue} before" for cue in BEFORE), *(f"{cue} after" for cue in AFTER),
)  # fmt: skip


def span_features(places: Places, text: str, words: NoteWords, *, language: str) -> NDArray[np.float32]:
    """One row for each span of a note."""
    first, last = places.first, places.last
    overlapping, containing = _neighbours(places)
    inside, behind = span_grades(words, first, last)
    spread = span_spread(words, first, last)
    cues = cue_distances(words.folded, load_cues(language), sentences=words.sentences[:-1])
    columns = [
        places.probability, places.on_path, places.inside, overlapping, containing, last - first,
        places.folded_share, places.folded_marked, places.stemmed_share, places.stemmed_marked, places.named,
        [words.surfaces[word].isupper() for word in first.tolist()],
        first / max(1, len(words)),
        _sections(text, words, first, language), inside, behind, *spread,
        *(_distance(cues, cue, first, before=True) for cue in BEFORE),
        *(_distance(cues, cue, last, before=False) for cue in AFTER),
    ]  # fmt: skip
    return np.stack([np.asarray(column, np.float32) for column in columns], axis=1)


def span_grades(
    words: NoteWords, first: NDArray[np.int32], last: NDArray[np.int32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The grade that stands in each span, and the next one behind it; not a number where there is none."""
    inside, behind = np.full(len(first), np.nan, np.float32), np.full(len(first), np.nan, np.float32)
    for grade in reversed(find_grades(words.folded)):  # the first one within reach is written last
        if grade.digit:
            inside[(first <= grade.first) & (last >= grade.last)] = int(grade.digit)
            behind[(last <= grade.first) & (grade.first - last < REACH)] = int(grade.digit)
    return inside, behind


def span_spread(
    words: NoteWords, first: NDArray[np.int32], last: NDArray[np.int32]
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Whether M1 or stage IV stands in each span, and how many words behind it; not a number where none is near."""
    inside, behind = np.zeros(len(first), np.bool_), np.full(len(first), np.nan, np.float32)
    for grade in reversed([grade for grade in find_grades(words.folded) if grade.metastatic]):
        inside |= (first <= grade.first) & (last >= grade.last)
        near = (last <= grade.first) & (grade.first - last < REACH)
        behind[near] = grade.first - last[near]
    return inside, behind


def _neighbours(places: Places) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The largest probability of another span that overlaps each one, and of one that contains it."""
    first, last = places.first, places.last
    other = ~np.eye(len(first), dtype=bool)
    overlaps = (first < last[:, None]) & (last > first[:, None]) & other
    contains = (first <= first[:, None]) & (last >= last[:, None]) & other
    overlapping, containing = (
        np.where(mask, places.probability, 0).max(axis=1, initial=0) for mask in (overlaps, contains)
    )
    return overlapping, containing


def _sections(text: str, words: NoteWords, first: NDArray[np.int32], language: str) -> Sequence[int]:
    sections = sections_of(text, language)
    numbers = [crc32(name.encode()) % SECTIONS if name else 0 for name in sections.names]
    return [numbers[section] for section in sections.at(words.starts[first]).tolist()]


def _distance(cues: FoundCues, kind: str, places: NDArray[np.int32], *, before: bool) -> NDArray[np.float32]:
    """How many words lie between each place and the nearest cue; not a number where none reaches it."""
    if kind not in cues.places:
        return np.full(len(places), np.nan, np.float32)
    found = cues.before(kind, places) if before else cues.after(kind, places)
    return np.where(found < FAR, found, np.nan).astype(np.float32)
