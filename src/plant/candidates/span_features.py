"""What speaks for a span as a mention, whatever its code: features of level 1 that the spans of a note share."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plant.candidates.places import Places
from plant.candidates.words import NoteWords

BEFORE = {"negation": 6, "family": 12, "hypothesis": 6, "history": 6, "metastasis": 6}  # words in which a cue counts
AFTER = {"negation": 5, "metastasis": 10, "grade": 10, "stage": 10}
SPAN_FEATURES = (
    "probability", "on path", "inside", "overlapping", "containing", "words", "marked share", "marked",
    "stems marked share", "stems marked", "named", "capitals", "place", "section",
    *(f"{cue} before" for cue in BEFORE), *(f"{cue} after" for cue in AFTER),
)  # fmt: skip


def span_features(
    places: Places, words: NoteWords, cues: Mapping[str, NDArray[np.int64]], sections: NDArray[np.int64]
) -> NDArray[np.float32]:
    """[spans, features]; `cues` are the words at which each kind of cue stands, `sections` numbers that of each word."""
    first, last = places.first, places.last
    overlapping, containing = _neighbours(places)
    columns = [
        places.probability, places.on_path, places.inside, overlapping, containing, last - first,
        places.folded_share, places.folded_marked, places.stemmed_share, places.stemmed_marked, places.named,
        [words.surfaces[word].isupper() for word in first.tolist()],
        first / max(1, len(words)),
        sections[first] if len(first) else first,
        *(_before(cues.get(cue, _NOWHERE), first, window) for cue, window in BEFORE.items()),
        *(_after(cues.get(cue, _NOWHERE), last, window) for cue, window in AFTER.items()),
    ]  # fmt: skip
    return np.stack([np.asarray(column, np.float32) for column in columns], axis=1)


_NOWHERE = np.empty(0, np.int64)


def _neighbours(places: Places) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The largest probability of another span that overlaps each one, and of one that contains it."""
    if not len(places.first):
        return np.empty(0, np.float32), np.empty(0, np.float32)
    first, last = places.first, places.last
    other = ~np.eye(len(first), dtype=bool)
    overlaps = (first < last[:, None]) & (last > first[:, None]) & other
    contains = (first <= first[:, None]) & (last >= last[:, None]) & other
    return tuple(np.where(mask, places.probability, 0).max(axis=1) for mask in (overlaps, contains))  # type: ignore[return-value]


def _before(cues: NDArray[np.int64], first: NDArray[np.int32], window: int) -> NDArray[np.float32]:
    """How many words before each span the nearest cue stands; not a number beyond the window."""
    place = np.searchsorted(cues, first) - 1
    distance = first - np.append(cues, 0)[place]
    return np.where((place >= 0) & (distance <= window), distance, np.nan).astype(np.float32)


def _after(cues: NDArray[np.int64], last: NDArray[np.int32], window: int) -> NDArray[np.float32]:
    """How many words behind each span the nearest cue stands; not a number beyond the window."""
    place = np.searchsorted(cues, last)
    distance = np.append(cues, np.iinfo(np.int32).max)[place] - last
    return np.where(distance < window, distance, np.nan).astype(np.float32)
