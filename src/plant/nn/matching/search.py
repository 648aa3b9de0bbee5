"""Where names stand in a document: compiled search for runs of similar words.

The score of a name that starts at position k is the mean over its words j of the similarity of word j and token k + j;
tokens beyond the edges are similar to nothing. With `slack` s, word j may stand up to s tokens later than that.
Similarities of distinct words are computed once; a name whose words cannot reach `least` anywhere is never slid.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.nn.matching.names import Names
from plant.store.ragged import offsets, places
from plant.text.vocab import UNKNOWN

NOWHERE = -1
TOLERANCE = 1e-5  # a sum of rounded similarities may fall this short of `least`


@dataclass(frozen=True)
class Matching:
    """How names are searched: similarities below `threshold` count as 0, scores below `least` as no match.

    With `longest`, a match inside a longer match of any name does not count, if that one reaches `covering`:
    "carcinoma" is not named by "ductal carcinoma". -1 for `threshold` and `least` keeps everything.
    """

    slack: int = 3
    threshold: float = 0.8
    least: float = 0.6
    longest: bool = True
    covering: float = 0.85


class Phrases(NamedTuple):
    """The distinct wordings of names, whose words are numbered by their place among the distinct words of all names.

    Several labels may have the same wording: it is searched once.
    """

    words: NDArray[np.int64]
    starts: NDArray[np.int64]
    distinct: NDArray[np.int64]  # token numbers
    n_trained: int  # wordings from there on were added later, and cover none before them
    of: NDArray[np.int64]  # the wording of each name
    names: NDArray[np.int64]  # the names of wording p, rising, between two `name_starts`
    name_starts: NDArray[np.int64]

    def lengths(self, names: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of words of some names."""
        of = self.of[names]
        return self.starts[of + 1] - self.starts[of]


class Found(NamedTuple):
    """Names found in a document, each once, at its best place."""

    names: NDArray[np.int64]
    starts: NDArray[np.int64]
    scores: NDArray[np.float64]


def phrases_of(names: Names) -> Phrases:
    """The names, ready to be searched."""
    distinct, words = np.unique(names.words, return_inverse=True)
    worded = [tuple(words[a:b].tolist()) for a, b in pairwise(names.starts.tolist())]
    numbers = {wording: number for number, wording in enumerate(dict.fromkeys(worded))}
    of = np.array([numbers[wording] for wording in worded], np.int64)
    order = np.argsort(of, kind="stable")
    return Phrases(
        words=np.array([word for wording in numbers for word in wording], np.int64),
        starts=offsets([len(wording) for wording in numbers]),
        distinct=distinct.astype(np.int64),
        n_trained=len(set(worded[: names.n_trained])),
        of=of,
        names=order,
        name_starts=np.searchsorted(of[order], np.arange(len(numbers) + 1)),
    )


class Similar(NamedTuple):
    """The distinct words of names that are like each token: `words[starts[t]:starts[t + 1]]`, with their values."""

    starts: NDArray[np.int64]
    words: NDArray[np.int64]
    values: NDArray[np.floating]


def identical(phrases: Phrases, n_words: int) -> Similar:
    """Every known word is like itself and like no other."""
    kept = np.flatnonzero(phrases.distinct > UNKNOWN)
    counts = np.bincount(phrases.distinct[kept], minlength=n_words)
    return Similar(offsets(counts), kept, np.ones(len(kept), np.float32))


def similar_words(table: NDArray[np.floating], *, threshold: float) -> Similar:
    """The similarities [distinct word, token] that reach the threshold."""
    tokens, words = np.nonzero(threshold <= table.T)
    starts = offsets(np.bincount(tokens, minlength=table.shape[1]))
    return Similar(starts, words, table[words, tokens])


class Document(NamedTuple):
    """The similarities of one document: a row for each distinct word of names that is like a token of it."""

    rows: NDArray[np.floating]  # [row, position]
    later: NDArray[np.floating]  # the same, the best within the slack
    row_of: NDArray[np.int64]  # per distinct word its row, or NOWHERE


def read(similar: Similar, tokens: NDArray[np.int64], phrases: Phrases, matching: Matching) -> Document:
    """A document from its tokens, as `similar` numbers them."""
    alike = np.zeros(len(phrases.distinct), np.bool_)
    _mark(similar.starts, similar.words, tokens, alike)
    row_of = np.where(alike, np.cumsum(alike) - 1, NOWHERE)
    rows = np.zeros((int(alike.sum()), len(tokens)), similar.values.dtype)
    _fill(similar.starts, similar.words, similar.values, tokens, row_of, rows)
    return Document(rows, _best_within(rows, matching.slack) if matching.slack else rows, row_of)


def search(document: Document, phrases: Phrases, matching: Matching, active: NDArray[np.bool_] | None = None) -> Found:
    """The best place of each (active) name that is found."""
    found = _wordings(document, phrases, matching, active)
    rows = places(phrases.name_starts, found.names)
    names, counts = phrases.names[rows.values], rows.lengths
    every = Found(names, np.repeat(found.starts, counts), np.repeat(found.scores, counts))
    return every if active is None else Found(*(field[active[names]] for field in every))


def _wordings(document: Document, phrases: Phrases, matching: Matching, active: NDArray[np.bool_] | None) -> Found:
    """The best place of each wording that an active name has."""
    awake = np.ones(len(phrases.starts) - 1, np.bool_)
    if active is not None:
        awake[:] = False
        awake[phrases.of[active]] = True
    words = document.row_of[phrases.words]
    arguments = (document.rows, document.later, words, phrases.starts, awake, matching.least)
    if not matching.longest:
        return Found(*_best(*arguments))
    room = 1 << 16  # a note has rarely more; one with more is searched twice
    while True:
        count, *every = _occurrences(*arguments, matching.slack, room)
        if count <= room:
            break
        room = count
    names, starts, scores, firsts, lasts = (array[:count] for array in every)
    whole, added = scores >= matching.covering - TOLERANCE, names >= phrases.n_trained
    free = ~_covered(firsts, lasts, whole, added, np.lexsort((-lasts, firsts)))
    return _best_of(names[free], starts[free], scores[free])


def positions(
    document: Document, phrases: Phrases, found: Found, *, slack: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each word of the found names, one after the other: its number in `phrases.words` and its token's position.

    The position is `NOWHERE` where no token is like the word.
    """
    words = places(phrases.starts, phrases.of[found.names])
    within = np.arange(len(words.values)) - np.repeat(words.starts[:-1], words.lengths)
    expected = np.repeat(found.starts, words.lengths) + within
    rows = document.row_of[phrases.words[words.values]]
    return words.values, _placed(document.rows, rows, expected, within, slack)


def _best_of(names: NDArray[np.int64], starts: NDArray[np.int64], scores: NDArray[np.float64]) -> Found:
    """One occurrence per name: the best, the first of equals."""
    order = np.lexsort((starts, -scores, names))
    chosen = order[np.unique(names[order], return_index=True)[1]]
    return Found(names[chosen], starts[chosen], scores[chosen])


@njit(cache=True)
def _covered(firsts, lasts, whole, added, order):  # type: ignore[no-untyped-def]
    """Which spans lie strictly inside a whole one; what was added covers nothing that was there before.

    `order` goes from left to right, the longest first.
    """
    covered = np.zeros(len(firsts), np.bool_)
    reach, reach_first = -2, -2  # the farthest end so far, and where the span that reaches it begins
    old_reach, old_first = -2, -2  # the same for spans of names that training knew
    for number in order:
        first, last = firsts[number], lasts[number]
        end, begin = (reach, reach_first) if added[number] else (old_reach, old_first)
        covered[number] = last < end or (last == end and first > begin)
        if covered[number] or not whole[number]:
            continue
        if last > reach:
            reach, reach_first = last, first
        if not added[number] and last > old_reach:
            old_reach, old_first = last, first
    return covered


@njit(cache=True)
def _mark(starts, words, tokens, alike):  # type: ignore[no-untyped-def]
    for token in tokens:
        for word in words[starts[token] : starts[token + 1]]:
            alike[word] = True


@njit(cache=True)
def _fill(starts, words, values, tokens, row_of, rows):  # type: ignore[no-untyped-def]
    for position, token in enumerate(tokens):
        for at in range(starts[token], starts[token + 1]):
            rows[row_of[words[at]], position] = values[at]


@njit(cache=True)
def _best_within(rows, slack):  # type: ignore[no-untyped-def]
    best = rows.copy()
    for row in range(rows.shape[0]):
        for step in range(1, slack + 1):
            for position in range(rows.shape[1] - step):
                best[row, position] = max(best[row, position], rows[row, position + step])
    return best


@njit(cache=True)
def _peaks(later):  # type: ignore[no-untyped-def]
    peaks = np.zeros(later.shape[0])
    for row in range(later.shape[0]):
        for position in range(later.shape[1]):
            peaks[row] = max(peaks[row], later[row, position])  # beyond the edges similarity is 0
    return peaks


@njit(cache=True)
def _slide(rows, later, words, total):  # type: ignore[no-untyped-def]
    """The sums of a name for all starts, from one word before the first token: `total[start + length - 1]`."""
    length, time = len(words), rows.shape[1]
    total[: time + length - 1] = 0
    for word in range(length):
        if words[word] == NOWHERE:
            continue
        source = rows[words[word]] if word == 0 else later[words[word]]
        shift = length - 1 - word
        for position in range(time):
            total[position + shift] += source[position]


@njit(cache=True)
def _hopeless(words, peaks, least):  # type: ignore[no-untyped-def]
    bound = 0.0
    for word in words:
        if word != NOWHERE:
            bound += peaks[word]
    return bound < least * len(words) - TOLERANCE


@njit(cache=True)
def _best(rows, later, words, starts, active, least):  # type: ignore[no-untyped-def]
    time, count = rows.shape[1], len(starts) - 1
    names, places, scores = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    peaks, found = _peaks(later), 0
    total = np.empty(time + _longest(starts))
    for name in range(count):
        mine = words[starts[name] : starts[name + 1]]
        if not active[name] or time == 0 or len(mine) == 0 or _hopeless(mine, peaks, least):
            continue
        _slide(rows, later, mine, total)
        best = np.argmax(total[: time + len(mine) - 1])
        if total[best] >= least * len(mine) - TOLERANCE:
            names[found], places[found], scores[found] = name, best - len(mine) + 1, total[best] / len(mine)
            found += 1
    return names[:found], places[:found], scores[:found]


@njit(cache=True)
def _occurrences(rows, later, words, starts, active, least, slack, room):  # type: ignore[no-untyped-def]
    """Every match of every name, as many as there is room for, and how many there are."""
    time = rows.shape[1]
    names, places, scores = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    firsts, lasts = np.empty(room, np.int64), np.empty(room, np.int64)
    peaks, found = _peaks(later), 0
    total = np.empty(time + _longest(starts))
    for name in range(len(starts) - 1):
        mine = words[starts[name] : starts[name + 1]]
        if not active[name] or time == 0 or len(mine) == 0 or _hopeless(mine, peaks, least):
            continue
        _slide(rows, later, mine, total)
        for at in range(time + len(mine) - 1):
            if total[at] >= least * len(mine) - TOLERANCE:
                if found < room:
                    start = at - len(mine) + 1
                    names[found], places[found], scores[found] = name, start, total[at] / len(mine)
                    firsts[found], lasts[found] = _ends(rows, mine, start, slack)
                found += 1
    return found, names, places, scores, firsts, lasts


@njit(cache=True)
def _longest(starts):  # type: ignore[no-untyped-def]
    longest = 0
    for name in range(len(starts) - 1):
        longest = max(longest, starts[name + 1] - starts[name])
    return longest


@njit(cache=True)
def _ends(rows, words, start, slack):  # type: ignore[no-untyped-def]
    """The first and the last position that a match takes."""
    first, last = rows.shape[1], -1
    for word in range(len(words)):
        position = _place(rows, words[word], start + word, 0 if word == 0 else slack)
        if position != NOWHERE:
            first, last = min(first, position), max(last, position)
    return first, last


@njit(cache=True)
def _place(rows, row, position, slack):  # type: ignore[no-untyped-def]
    """Where the most similar token stands, the first of equals; NOWHERE if none is similar."""
    time, best = rows.shape[1], position
    if row == NOWHERE or position < 0 or position >= time:
        return NOWHERE
    for at in range(position + 1, min(position + slack + 1, time)):
        if rows[row, at] > rows[row, best]:
            best = at
    return best if rows[row, best] != 0 else NOWHERE


@njit(cache=True)
def _placed(rows, words, places, offsets, slack):  # type: ignore[no-untyped-def]
    result = np.empty(len(words), np.int64)
    for number in range(len(words)):
        result[number] = _place(rows, words[number], places[number], 0 if offsets[number] == 0 else slack)
    return result
