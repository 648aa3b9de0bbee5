"""What speaks for the labels of a text: words that labels list, labels of similar texts, words of labels' names.

Compiled walks over one text at a time; their cost follows what the text touches, not the number of labels.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.synonyms import spoken
from plant.data.vectors import TextVectors
from plant.store.ragged import Ragged, offsets
from plant.text.tokenizer import tokenize
from plant.text.vocab import UNKNOWN, Vocab
from plant.train.bow import ListedWeights

COMMON = 30_000  # fitted texts: a word of more finds no neighbours, it would find a fifth of the corpus
HALF_NAMED = 0.4  # of a name's weight must stand in a text, or it says nothing
MANY_NAMES = 2_000  # names: a stem of more says nothing by itself
SHARP, SHARPEST = 3, 6  # the power of a similarity in a sharp vote; in a broad one it is 1
FIRST = 10  # neighbours, best first
KINDS = 10  # of evidence, the arrays of `Found`


@dataclass(frozen=True)
class Names:
    """Stems of words (their first letters), the names that have each stem, and each name's label.

    Stem s stands in the names `names[starts[s]:starts[s + 1]]`, where `weights` are its shares of them.
    """

    stems: NDArray[np.int32]  # per token; -1 where it has none
    starts: NDArray[np.int64]
    names: NDArray[np.int32]
    weights: NDArray[np.float32]
    labels: NDArray[np.int32]  # per name


@dataclass(frozen=True)
class Found:
    """The labels for which something speaks in one text, and what; all arrays run along the labels."""

    labels: NDArray[np.int32]
    logits: NDArray[np.float32]  # of listed words; the bias where none is listed
    sharp: NDArray[np.float32]  # shares of the neighbours' votes
    broad: NDArray[np.float32]
    named: NDArray[np.float32]  # share of the best name that stands in the text
    matched: NDArray[np.float32]  # number of words that are listed
    covered: NDArray[np.float32]  # sum of their squared values, of 1
    sharpest: NDArray[np.float32]  # share of votes
    voters: NDArray[np.float32]  # number of neighbours with the label
    first_voters: NDArray[np.float32]  # of these, among the first
    closest: NDArray[np.float32]  # greatest cosine of a voter

    @property
    def listed(self) -> NDArray[np.bool_]:
        return self.matched > 0


def nearest(
    texts: TextVectors, postings: TextVectors, *, n_fitted: int, most: int, own: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The fitted texts with the greatest cosine for each text, best first, and the cosines; -1 and 0 beyond the last.

    `own` are the numbers of the texts among the fitted ones: no text is its own neighbour.
    """
    own = np.full(len(texts), -1, np.int64) if own is None else own
    found = np.full((len(texts), most), -1, np.int32)
    values = np.zeros((len(texts), most), np.float32)
    if most:
        _nearest(texts.starts, texts.tokens, texts.values, postings.starts, postings.tokens, postings.values,
                 n_fitted, own, COMMON, found, values)  # fmt: skip
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(found, order, 1), np.take_along_axis(values, order, 1)


def gather(
    texts: TextVectors,
    neighbours: tuple[NDArray[np.int32], NDArray[np.float32]],
    listed: ListedWeights,
    fitted_labels: Ragged,
    names: Names,
) -> Iterable[Found]:
    """What speaks for the labels of each text."""
    n_labels = len(listed.biases)
    work = np.zeros((KINDS, n_labels), np.float32)
    seen, touched = np.zeros(n_labels, np.bool_), np.empty(n_labels, np.int32)
    shares = np.zeros(len(names.labels), np.float32)
    lists = (listed.starts, listed.labels, listed.weights, listed.biases)
    votes = (fitted_labels.starts, fitted_labels.values)
    naming = (names.stems, names.starts, names.names, names.weights, names.labels)
    for row in range(len(texts)):
        near = (neighbours[0][row], neighbours[1][row])
        found = _gather(*texts.row(row), near, lists, votes, naming, work, seen, touched, shares)
        labels = np.sort(touched[:found])
        yield Found(labels, *work[:, labels])
        work[:, labels], seen[labels] = 0, False


def name_stems(
    codes: tuple[str, ...], book: CodeBook, vocab: Vocab, inverse: NDArray[np.float32], *, letters: int
) -> Names:
    """The names of all codes by the stems of their words; rare stems weigh more. No `letters`: no names."""
    numbers: dict[str, int] = {}
    stems = np.array([_number(word[:letters], numbers) for word in vocab.tokens] if letters else [], np.int32)
    stems = stems if letters else np.full(len(vocab), -1, np.int32)
    stems[: UNKNOWN + 1] = -1
    frequent = np.full(len(numbers), np.inf, np.float32)
    np.minimum.at(frequent, stems[stems >= 0], inverse[stems >= 0])
    rarest = float(inverse.max(initial=1.0))
    entries: list[tuple[int, int, float]] = []
    labels: list[int] = []
    for label, code in enumerate(codes if letters else ()):
        for words in dict.fromkeys(_words(book, code, letters)):
            known = [numbers.get(stem, -1) for stem in words]
            weights = np.array([rarest if stem < 0 else min(rarest, frequent[stem]) for stem in known])
            shares = (weights / weights.sum()).tolist()
            entries.extend((stem, len(labels), share) for stem, share in zip(known, shares, strict=True) if stem >= 0)
            labels.append(label)
    entries.sort()
    by_stem = np.array([stem for stem, _, _ in entries], np.int64)
    return Names(
        stems=stems,
        starts=offsets(np.bincount(by_stem, minlength=len(numbers))),
        names=np.array([name for _, name, _ in entries], np.int32),
        weights=np.array([share for _, _, share in entries], np.float32),
        labels=np.array(labels, np.int32),
    )


def _words(book: CodeBook, code: str, letters: int) -> Iterable[tuple[str, ...]]:
    """The distinct stems of each form in which a code's names are spoken."""
    for name in book.names(code):
        for form in spoken(name):
            stems = tuple(sorted({word[:letters] for word in tokenize(form).forms}))
            if stems:
                yield stems


def _number(stem: str, numbers: dict[str, int]) -> int:
    return numbers.setdefault(stem, len(numbers))


@numba.njit(cache=True, nogil=True)
def _nearest(starts, tokens, values, post_starts, post_texts, post_values, n_fitted, own, common, found, cosines):  # type: ignore[no-untyped-def]  # compiled
    sums, touched = np.zeros(n_fitted, np.float32), np.empty(n_fitted, np.int32)
    most = found.shape[1]
    for row in range(len(starts) - 1):
        met = 0
        for place in range(starts[row], starts[row + 1]):
            token, value = tokens[place], values[place]
            if post_starts[token + 1] - post_starts[token] > common:
                continue
            for entry in range(post_starts[token], post_starts[token + 1]):
                text = post_texts[entry]
                if sums[text] == 0 and met < n_fitted:  # sums of values that cancel may be 0 again
                    touched[met] = text
                    met += 1
                sums[text] += value * post_values[entry]
        if own[row] >= 0:
            sums[own[row]] = 0
        kept, worst = 0, 0
        for text in touched[:met]:
            cosine, sums[text] = sums[text], 0
            if cosine == 0 or (kept == most and cosine <= cosines[row, worst]):
                continue
            if kept < most:
                place = kept
                kept += 1
            else:
                place = worst
            found[row, place], cosines[row, place] = text, cosine
            if kept == most:
                worst = int(np.argmin(cosines[row]))


@numba.njit(cache=True, nogil=True)
def _gather(tokens, values, near, lists, votes, naming, work, seen, touched, shares):  # type: ignore[no-untyped-def]  # compiled
    starts, labels, weights, biases = lists
    label_starts, fitted_labels = votes
    stems, stem_starts, stem_names, stem_weights, name_labels = naming
    logits, sharp, broad, named, matched = work[0], work[1], work[2], work[3], work[4]
    covered, sharpest, voters, first_voters, closest = work[5], work[6], work[7], work[8], work[9]
    found = 0
    for place in range(len(tokens)):
        for entry in range(starts[tokens[place]], starts[tokens[place] + 1]):
            label = labels[entry]
            found = _touch(label, seen, touched, logits, biases, found)
            logits[label] += weights[entry] * values[place]
            matched[label] += 1
            covered[label] += values[place] * values[place]
    sharpest_sum, sharp_sum, broad_sum = np.float32(0), np.float32(0), np.float32(0)
    for place in range(len(near[0])):
        if near[0][place] >= 0:
            sharpest_sum += near[1][place] ** SHARPEST
            sharp_sum += near[1][place] ** SHARP
            broad_sum += near[1][place]
    for place in range(len(near[0])):
        text = near[0][place]
        if text < 0:
            continue
        for entry in range(label_starts[text], label_starts[text + 1]):
            label = fitted_labels[entry]
            found = _touch(label, seen, touched, logits, biases, found)
            sharp[label] += near[1][place] ** SHARP / sharp_sum
            broad[label] += near[1][place] / broad_sum
            sharpest[label] += near[1][place] ** SHARPEST / sharpest_sum
            voters[label] += 1
            first_voters[label] += place < FIRST
            closest[label] = max(closest[label], near[1][place])
    for turn in range(2):  # add up the shares of names, then read them and wipe them
        for place in range(len(tokens)):
            stem = stems[tokens[place]]
            if (
                stem < 0
                or stem_starts[stem + 1] - stem_starts[stem] > MANY_NAMES
                or _earlier(stem, tokens, stems, place)
            ):
                continue
            for entry in range(stem_starts[stem], stem_starts[stem + 1]):
                name = stem_names[entry]
                if turn == 0:
                    shares[name] += stem_weights[entry]
                elif shares[name] >= HALF_NAMED:
                    label = name_labels[name]
                    found = _touch(label, seen, touched, logits, biases, found)
                    named[label] = max(named[label], shares[name])
                    shares[name] = 0
                else:
                    shares[name] = 0
    return found


@numba.njit(cache=True, nogil=True)
def _touch(label, seen, touched, logits, biases, found):  # type: ignore[no-untyped-def]  # compiled
    if seen[label]:
        return found
    seen[label] = True
    touched[found] = label
    logits[label] = biases[label]
    return found + 1


@numba.njit(cache=True, nogil=True)
def _earlier(stem, tokens, stems, place):  # type: ignore[no-untyped-def]  # compiled
    """Whether a word before this place has the same stem."""
    for before in range(place):  # noqa: SIM110 - numba compiles loops, not generators
        if stems[tokens[before]] == stem:
            return True
    return False
