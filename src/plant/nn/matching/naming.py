"""Naming: the names of every label, and how far each is to be believed, counted on the fitted notes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.icd import family
from plant.codes.synonyms import read_synonyms, spoken
from plant.data.corpus import TrainingView
from plant.data.mentions import Mention, mined_mentions
from plant.nn.matching.names import Names
from plant.nn.matching.search import Matching, identical, phrases_of, read, search
from plant.nn.parts.build import decoders_of
from plant.recipe.schema import Recipe
from plant.store.ragged import offsets
from plant.text.tokenizer import tokenize
from plant.text.vocab import UNKNOWN, Vocab
from plant.types import Progress, silent

RIGHT, WRONG = 0.7, 0.3  # added to the counts of every name; best of four in cross-validation, see docs/log.md
LENT = 0.1  # how far a name is believed for a code of the same family, for which nobody has marked it


@dataclass(frozen=True)
class Counts:
    """In how many fitted notes each name stands, and in how many of those its code is right."""

    found: NDArray[np.int64]
    right: NDArray[np.int64]

    def log_odds(self) -> NDArray[np.float32]:
        """The log-odds of the code given the name, drawn towards those of a new name."""
        return np.log((self.right + RIGHT) / (self.found - self.right + WRONG)).astype(np.float32)


def name_labels(view: TrainingView, recipe: Recipe, progress: Progress = silent) -> Names:
    """Titles and synonyms of the code book and of the user's table, and what coders marked in the fitted notes."""
    book = read_synonyms(recipe.naming.synonyms, view.codebook) if recipe.naming.synonyms else view.codebook
    sources: dict[Mention, frozenset[int]] = {}
    if recipe.naming.mined:
        sources |= mined_mentions(view)
    if recipe.naming.book:  # what a book names is known before any note: it has no note of its own
        sources |= dict.fromkeys(_book_names(book, view, recipe), frozenset())
    lent = lent_names(sources, Families.of(view)) if recipe.naming.kin else {}
    names = _names(sources | {mention: rows for mention, (rows, _) in lent.items()}, view)
    rows = [*sources.values(), *(rows for rows, _ in lent.values())]
    counts = count_names(names, rows, view, matching_of(recipe), progress)
    shares = np.array([share for _, share in lent.values()])
    found = counts.found[len(sources) :]
    log_odds = counts.log_odds()
    log_odds[len(sources) :] = np.log(LENT * shares / (1 + WRONG * found))
    return replace(names, log_odds=log_odds)


@dataclass(frozen=True)
class Families:
    """Labels that differ in detail only, and what share of its family's codes in the fitted notes each one has."""

    family: tuple[str, ...]  # per label
    members: Mapping[str, tuple[int, ...]]
    share: NDArray[np.float64]  # per label

    @staticmethod
    def of(view: TrainingView) -> "Families":
        """The families of the fitted codes."""
        return Families.from_counts(view.codes, view.codebook.system, view.label_counts())

    @staticmethod
    def from_counts(codes: Sequence[str], system: str, counts: NDArray[np.integer]) -> "Families":
        """The families of codes that so many notes have; shares are drawn a little towards equal ones."""
        names = tuple(family(code, system) for code in codes)
        members: dict[str, list[int]] = defaultdict(list)
        for label, name in enumerate(names):
            members[name].append(label)
        totals = {name: counts[labels].sum() for name, labels in members.items()}
        share = [
            (count + 2 / len(members[name])) / (totals[name] + 2) for count, name in zip(counts, names, strict=True)
        ]
        return Families(names, {name: tuple(labels) for name, labels in members.items()}, np.array(share))


def lent_names(
    sources: Mapping[Mention, frozenset[int]], families: Families
) -> dict[Mention, tuple[frozenset[int], float]]:
    """Names for the kin of the labels that have them: the documents they were marked in, and the borrower's share."""
    lent: dict[Mention, frozenset[int]] = {}
    for (words, label), rows in sources.items():
        for kin in families.members[families.family[label]]:
            if (words, kin) not in sources:
                lent[words, kin] = lent.get((words, kin), frozenset()) | rows
    return {mention: (rows, float(families.share[mention[1]])) for mention, rows in lent.items()}


def matching_of(recipe: Recipe) -> Matching:
    """How the recipe's decoder searches names."""
    options = decoders_of(recipe).get("interaction", {})
    return Matching(**{field.name: options[field.name] for field in fields(Matching) if field.name in options})


def _book_names(book: CodeBook, view: TrainingView, recipe: Recipe) -> Iterator[Mention]:
    if recipe.naming.titles_only:
        return mentions_of(((book.description(code),) for code in view.codes), view.vocab)
    return book_mentions(book, view.codes, view.vocab)


def book_mentions(book: CodeBook, codes: Iterable[str], vocab: Vocab) -> Iterator[Mention]:
    """The names of each code as token numbers; a name with an unknown word can never match and is left out."""
    return mentions_of((tuple(form for name in book.names(code) for form in spoken(name)) for code in codes), vocab)


def mentions_of(names: Iterable[tuple[str, ...]], vocab: Vocab) -> Iterator[Mention]:
    """The names of each label as token numbers."""
    for label, forms in enumerate(names):
        for form in dict.fromkeys(forms):
            words = tuple(vocab.encode(tokenize(form).forms).tolist())
            if words and UNKNOWN not in words:
                yield words, label


def count_names(
    names: Names,
    sources: list[frozenset[int]],
    view: TrainingView,
    matching: Matching,
    progress: Progress = silent,
) -> Counts:
    """Search every fitted note as if it were new: without the names that were marked in it alone."""
    phrases = phrases_of(names)
    similar = identical(phrases, len(view.vocab))
    strict = replace(matching, threshold=1.0, least=1.0)
    only = np.array([next(iter(rows)) if len(rows) == 1 else -1 for rows in sources], np.int64)
    found, right = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    for row in range(len(view.documents)):
        document = read(similar, view.documents.tokens_of(row).astype(np.int64), phrases, strict)
        here = search(document, phrases, strict, only != row).names
        found[here] += 1
        right[here] += np.isin(names.labels[here], view.documents.labels_of(row))
        progress("counting names", row + 1, len(view.documents))
    return Counts(found, right)


def _names(sources: Mapping[Mention, frozenset[int]], view: TrainingView) -> Names:
    lengths = [len(words) for words, _ in sources]
    return Names(
        words=np.array([word for words, _ in sources for word in words], np.int32),
        starts=offsets(lengths),
        labels=np.array([label for _, label in sources], np.int32),
        support=np.array([len(rows) for rows in sources.values()], np.int32),
        log_odds=np.zeros(len(sources), np.float32),
        n_trained=len(sources),
        n_labels=len(view.codes),
        n_words=len(view.vocab),
    )
