"""The best match of each label in notes, and the words that face each other there, in arrays."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plant.nn.matching.kept import Matches
from plant.nn.matching.search import NOWHERE, Matching, Phrases, Similar, positions, read, search
from plant.store.ragged import offsets


class Placed(NamedTuple):
    """The best match of each label found in each note, and its pairs of words that face each other."""

    rows: NDArray[np.int64]  # [match]
    labels: NDArray[np.int64]
    names: NDArray[np.int64]
    lengths: NDArray[np.int64]  # of the names
    pair_match: NDArray[np.int64]  # [pair]
    pair_word: NDArray[np.int64]
    pair_position: NDArray[np.int64]


def matches_in(
    similar: Similar,
    tokens: NDArray[np.int64],
    phrases: Phrases,
    matching: Matching,
    active: NDArray[np.bool_] | None = None,
) -> Matches:
    """All (active) names found in a note, whose tokens are numbered as `similar` numbers them."""
    document = read(similar, tokens, phrases, matching)
    found = search(document, phrases, matching, active)
    words, at = positions(document, phrases, found, slack=matching.slack)
    return Matches(np.array([len(found.names)]), found, offsets(phrases.lengths(found.names)), words, at)


def best_per_label(
    matches: Matches,
    values: NDArray[np.floating],
    labels: NDArray[np.integer],
    asked: NDArray[np.int64] | None = None,
) -> NDArray[np.intp]:
    """The match of the best value of each label in each note, by note and label; the first name of equals."""
    names, rows = matches.found.names, matches.rows
    order = np.lexsort((names, -values, labels, rows))
    if asked is not None:
        order = order[np.isin(labels[order], asked)]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(labels[order]) != 0) | (np.diff(rows[order]) != 0)
    return order[new]


def placed(matches: Matches, best: NDArray[np.intp], phrases: Phrases, name_labels: NDArray[np.integer]) -> Placed:
    """Where chosen matches stand."""
    names = matches.found.names[best]
    lengths = phrases.lengths(names)
    words, at = matches.words_of(best)
    match, kept = np.repeat(np.arange(len(names)), lengths), at != NOWHERE
    word_tokens = phrases.distinct[phrases.words[words]]
    arrays = (matches.rows[best], name_labels[names], names, lengths, match[kept], word_tokens[kept], at[kept])
    return Placed(*(array.astype(np.int64) for array in arrays))
