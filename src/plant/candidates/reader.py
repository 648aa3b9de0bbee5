"""A reader: what it takes to list candidates for a note that it was not fitted on.

Where a mention may stand (`places`), which code its words may mean (`names`), what the whole note says
(`note_regression`): each fitted on the same notes. See docs/models/candidates.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates.clusters import WordClusters
from plant.candidates.mentions import Mention
from plant.candidates.namer_store import pack_namer, unpack_namer
from plant.candidates.names import Namer, fit_namer, with_names
from plant.candidates.note_regression import NoteRegression, fit_regression, unpack_regression
from plant.candidates.packing import part, under
from plant.candidates.phrases import gather_phrases
from plant.candidates.places import Finder, FinderOptions, fit_finder, unpack_finder
from plant.candidates.wording import Wording
from plant.candidates.words import NoteWords, stemmer, words_of
from plant.store.checks import check_shape
from plant.types import Progress, silent


@dataclass(frozen=True)
class TaughtNote:
    """A fitted note: a number that tells it from others, its words, what was marked in them, and its codes' columns."""

    key: int
    words: NoteWords
    mentions: tuple[Mention, ...]
    labels: frozenset[int]


@dataclass(frozen=True)
class Book:
    """Names of codes in a coding system."""

    system: str
    names: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Reader:
    """Fitted on some notes; `codes` are those that the notes have, in the order of the regression's columns.

    `seen` are the keys of the notes: no reader may list candidates for one of them.
    """

    finder: Finder
    namer: Namer
    regression: NoteRegression | None
    codes: tuple[str, ...]
    language: str
    seen: NDArray[np.int64]

    @cached_property
    def stem(self) -> Callable[[str], str]:
        """The stemmer of the reader's language."""
        return stemmer(self.language)

    def with_names(self, names: Mapping[str, Sequence[str]]) -> "Reader":
        """The reader with names of further codes, or further names of codes that it knows."""
        wordings = {code: wordings_of(own, self.stem) for code, own in names.items()}
        known = set(self.namer.codes)
        new = {code: own for code, own in wordings.items() if code not in known}
        if not new:
            return self
        stems = [stems for own in new.values() for _, stems in own]
        phrases = gather_phrases([*self.finder.names.listed(), *stems])
        return replace(self, namer=with_names(self.namer, new), finder=replace(self.finder, names=phrases))

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain options and arrays."""
        finder, namer = self.finder.pack(), pack_namer(self.namer)
        regression = self.regression.pack() if self.regression else None
        options = {
            "codes": list(self.codes),
            "language": self.language,
            "finder": finder[0],
            "namer": namer[0],
            "regression": regression and regression[0],
        }
        arrays = {"seen": self.seen} | under("finder", finder[1]) | under("namer", namer[1])
        return options, arrays | (under("regression", regression[1]) if regression else {})


def unpack_reader(options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Reader:
    """The reader that `pack` took apart."""
    regression, codes = options["regression"], tuple(options["codes"])
    regressed = part("regression", arrays)
    check_shape("seen", arrays["seen"], (arrays["seen"].size,), "iu")
    return Reader(
        unpack_finder(options["finder"], part("finder", arrays)),
        unpack_namer(options["namer"], part("namer", arrays)),
        None if regression is None else unpack_regression(regression, regressed, n_codes=len(codes)),
        codes,
        options["language"],
        np.array(arrays["seen"]),
    )


def fit_reader(
    notes: Sequence[TaughtNote],
    codes: Sequence[str],
    book: Book,
    *,
    language: str,
    longest: int = 22,
    clusters: WordClusters | None = None,
    seed: int,
    progress: Progress = silent,
) -> Reader:
    """Fit on notes whose labels are columns of `codes`; the book's names of codes that it may look for.

    Mentions of more than `longest` words are marks of several fragments as one: they teach neither places nor names.
    """
    stem = stemmer(language)
    wordings = {code: wordings_of(names, stem) for code, names in book.names.items()}
    counts = Counter(label for note in notes for label in note.labels)
    own = sorted(counts)
    columns = {label: column for column, label in enumerate(own)}
    return Reader(
        finder=fit_finder(
            [note.words for note in notes],
            [note.mentions for note in notes],
            names={stems for own in wordings.values() for _, stems in own},
            clusters=clusters,
            options=FinderOptions(longest=longest),
            seed=seed,
            progress=progress,
        ),
        namer=fit_namer(
            marked_wordings(notes, codes, longest=longest),
            wordings,
            {codes[label]: counts[label] for label in own},
            system=book.system,
        ),
        regression=fit_regression(
            [note.words.stems for note in notes],
            [[columns[label] for label in sorted(note.labels)] for note in notes],
            n_codes=len(own),
        ),
        codes=tuple(codes[label] for label in own),
        language=language,
        seen=np.array(sorted(note.key for note in notes), np.int64),
    )


def wordings_of(names: Iterable[str], stem: Callable[[str], str]) -> tuple[Wording, ...]:
    """Names as folded words and stems."""
    words = [words_of(name, stem) for name in names]
    return tuple(dict.fromkeys((name.folded, name.stems) for name in words if len(name)))


def marked_wordings(notes: Iterable[TaughtNote], codes: Sequence[str], *, longest: int) -> dict[Wording, Counter[str]]:
    """How often each wording of at most so many words was marked for each code."""
    found: dict[Wording, Counter[str]] = {}
    for note in notes:
        for mention in note.mentions:
            if mention.last - mention.first > longest:
                continue
            words = slice(mention.first, mention.last)
            wording = (note.words.folded[words], note.words.stems[words])
            found.setdefault(wording, Counter())[codes[mention.label]] += 1
    return found
