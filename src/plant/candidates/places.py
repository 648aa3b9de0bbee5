"""Where mentions may stand in a note: a finder fitted to what coders marked, and the places that it offers.

Places may overlap and be wrong: a judge decides later, and can only choose among what is offered here.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.candidates.clusters import SIZES, WordClusters, unpack_clusters
from plant.candidates.gazetteer import Found, Gazetteer, Spans, fit_gazetteer, positions, unpack_gazetteer
from plant.candidates.mentions import Mention
from plant.candidates.packing import Arrays, part, under
from plant.candidates.phrases import (
    Matches,
    Phrase,
    Phrases,
    Tokens,
    folded_tokens,
    gather_phrases,
    stemmed_tokens,
    unpack_phrases,
)
from plant.candidates.rates import Rates, fit_rates, unpack_rates
from plant.candidates.tagging import (
    ABSENT,
    BEGIN,
    END,
    FIRST_KNOWN,
    INSIDE,
    N_TAGS,
    OUTSIDE,
    SINGLE,
    Alphabet,
    Tagger,
    fit_tagger,
    gather_alphabet,
    spans_of_tags,
    tags_of,
    unpack_tagger,
)
from plant.candidates.words import NoteWords
from plant.store.ragged import offsets
from plant.types import Progress, silent


@dataclass(frozen=True)
class FinderOptions:
    """How a finder is fitted, and what it offers."""

    l1: float = 0.0
    l2: float = 0.2
    iterations: int = 50
    unmarked: float = 0.12  # share of the sentences without a mention that the tagger learns from
    most_notes: int = 3000  # that the tagger learns from; wordings are counted in all notes
    min_count: int = 2  # of a feature in these sentences
    threshold: float = 0.04  # of a place's probability
    share: float = 0.08  # of a wording's occurrences that were marked, for all of them to be places
    longest: int = 22  # words of a place


@dataclass(frozen=True)
class Places:
    """Where mentions may stand in a note: spans of words, which may overlap, and how far each is believed."""

    first: NDArray[np.int32]
    last: NDArray[np.int32]
    probability: NDArray[np.float32]  # the smallest of the tagger's P(tag) that the span asks for
    on_path: NDArray[np.bool_]  # of the tagger's likeliest tags
    inside: NDArray[np.float32]  # mean of 1 - P(outside)
    folded_marked: NDArray[np.float32]  # how often the wording was marked; 0 where it never was
    folded_share: NDArray[np.float32]  # ... of how often it stands in the fitted notes
    stemmed_marked: NDArray[np.float32]
    stemmed_share: NDArray[np.float32]
    named: NDArray[np.bool_]  # a name of the code book stands here

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Finder:
    """What was marked, what is named, and a tagger; none of the latter where nothing was marked."""

    options: FinderOptions
    folded: Gazetteer
    stemmed: Gazetteer
    rates: Rates
    names: Phrases
    clusters: WordClusters | None
    tagger: Tagger | None

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Everything, as plain options and arrays."""
        parts: dict[str, Any] = {
            "folded": self.folded,
            "stemmed": self.stemmed,
            "rates": self.rates,
            "names": self.names,
        }
        optional = {"clusters": self.clusters, "tagger": self.tagger}
        parts |= {name: thing for name, thing in optional.items() if thing is not None}
        arrays = {key: array for name, thing in parts.items() for key, array in under(name, thing.pack()).items()}
        return {"options": asdict(self.options), "parts": sorted(parts)}, arrays


def unpack_finder(options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Finder:
    """What `pack` took apart."""
    return Finder(
        options=FinderOptions(**options["options"]),
        folded=unpack_gazetteer(part("folded", arrays)),
        stemmed=unpack_gazetteer(part("stemmed", arrays)),
        rates=unpack_rates(part("rates", arrays)),
        names=unpack_phrases(part("names", arrays)),
        clusters=unpack_clusters(part("clusters", arrays)) if "clusters" in options["parts"] else None,
        tagger=unpack_tagger(part("tagger", arrays)) if "tagger" in options["parts"] else None,
    )


def fit_finder(
    notes: Sequence[NoteWords],
    mentions: Sequence[Sequence[Mention]],
    *,
    names: Collection[Phrase] = (),
    clusters: WordClusters | None = None,
    options: FinderOptions | None = None,
    seed: int = 1,
    progress: Progress = silent,
) -> Finder:
    """Learn where mentions stand from notes in which coders marked them; `names` are stemmed names of codes.

    Notes are fitted in an order that follows from what they say, so that any order gives the same finder.
    """
    options = options or FinderOptions()
    notes, spans = _in_order(notes, [_short_spans(marked, options.longest) for marked in mentions])
    folded = fit_gazetteer([folded_tokens(words) for words in notes], spans)
    stemmed = fit_gazetteer([stemmed_tokens(words) for words in notes], spans)
    rates = fit_rates([words.stems for words in notes], spans)
    untaught = Finder(options, folded, stemmed, rates, gather_phrases(names), clusters, None)
    most = options.most_notes  # in the order of the notes' digests any first ones are drawn
    marked = len(folded.phrases) > 0
    tagger = _taught(untaught, notes[:most], spans[:most], seed=seed, progress=progress) if marked else None
    return replace(untaught, tagger=tagger)


def find_places(finder: Finder, words: NoteWords) -> Places:
    """Where mentions may stand in a note that the finder was not fitted on, in reading order."""
    folded, stemmed = _found(finder, words)
    named = _pairs(finder.names.find(Tokens(words.stems, words.stems)))
    probabilities, tags = _read(finder, words, folded, stemmed)
    likely = _likely_spans(probabilities, words.sentences, finder.options.threshold, finder.options.longest)
    marked = [_pairs(found)[found.shares > finder.options.share] for found in (folded, stemmed)]
    on_path = spans_of_tags(tags)
    return _described(np.concatenate([on_path, likely, *marked, named]), probabilities, on_path, folded, stemmed, named)


def _in_order(notes: Sequence[NoteWords], spans: Sequence[Spans]) -> tuple[list[NoteWords], list[Spans]]:
    """Notes with what was marked in them, in an order that follows from both."""
    rows = sorted(zip(notes, spans, strict=True), key=lambda row: (_digest(row[0], 0), sorted(row[1])))
    return [words for words, _ in rows], [own for _, own in rows]


def _digest(words: NoteWords, seed: int) -> int:
    """64 bits that follow from what a note says."""
    text = "\n".join(words.surfaces).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, salt=seed.to_bytes(8, "little", signed=True)).digest())


def _short_spans(mentions: Sequence[Mention], longest: int) -> frozenset[tuple[int, int]]:
    """Where mentions stand, each place once; what is longer than any place cannot be found and need not be learned."""
    return frozenset((each.first, each.last) for each in mentions if each.last - each.first <= longest)


def _taught(
    finder: Finder, notes: Sequence[NoteWords], spans: Sequence[Spans], *, seed: int, progress: Progress
) -> Tagger:
    """Fit the tagger to all sentences with a mention and some of the others."""
    options = finder.options
    tags = [tags_of(own, len(words), words.sentences) for words, own in zip(notes, spans, strict=True)]
    drawn = [_drawn(words, own, options.unmarked, seed) for words, own in zip(notes, tags, strict=True)]
    kept = [np.repeat(which, np.diff(words.sentences)) for words, which in zip(notes, drawn, strict=True)]
    alphabet = gather_alphabet(_word_counts(notes, kept), min_count=1)
    values = []
    for done, (words, own, which) in enumerate(zip(notes, spans, kept, strict=True)):
        values.append(_values(finder, alphabet, words, *_found(finder, words, own), own)[:, which])
        progress("notes prepared for the tagger", done + 1, len(notes))
    lengths = [np.diff(words.sentences)[which] for words, which in zip(notes, drawn, strict=True)]
    return fit_tagger(
        alphabet,
        np.concatenate(values, 1),
        offsets(np.concatenate(lengths)),
        np.concatenate([own[which] for own, which in zip(tags, kept, strict=True)]),
        min_count=options.min_count,
        l1=options.l1,
        l2=options.l2,
        iterations=options.iterations,
        progress=progress,
    )


def _drawn(words: NoteWords, tags: NDArray[np.int8], share: float, seed: int) -> NDArray[np.bool_]:
    """The sentences to learn from; which of those without a mention follows from the note's text and the seed."""
    n_sentences = len(words.sentences) - 1
    marked = np.zeros(n_sentences, np.bool_)
    marked[np.searchsorted(words.sentences, np.flatnonzero(tags), side="right") - 1] = True
    return marked | (np.random.default_rng(_digest(words, seed)).random(n_sentences) < share)


def _word_counts(notes: Sequence[NoteWords], kept: Sequence[NDArray[np.bool_]]) -> Counter[tuple[str, str, str]]:
    """How often each word (as written, folded, stemmed) stands in the kept sentences."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for words, which in zip(notes, kept, strict=True):
        counts.update(compress(zip(words.surfaces, words.folded, words.stems, strict=True), which.tolist()))
    return counts


def _found(finder: Finder, words: NoteWords, own: Spans | None = None) -> tuple[Found, Found]:
    """What both dictionaries find in a note; `own` is what was marked in a fitted one."""
    return finder.folded.find(folded_tokens(words), own), finder.stemmed.find(stemmed_tokens(words), own)


def _values(
    finder: Finder, alphabet: Alphabet, words: NoteWords, folded: Found, stemmed: Found, own: Spans | None = None
) -> NDArray[np.int32]:
    """What the tagger sees of each word by itself, [kinds, words]; `own` is what was marked in a fitted note."""
    clusters = finder.clusters
    spelled = alphabet.values(words.surfaces, words.folded, words.stems)
    grouped = np.zeros((len(SIZES), len(words)), np.int32) if clusters is None else clusters.of(words.folded)
    listed = np.stack([*positions(folded, len(words)), *positions(stemmed, len(words))])
    others = np.concatenate([grouped, listed, finder.rates.values(words.stems, own)])
    return np.concatenate([spelled, np.where(others > 0, others + FIRST_KNOWN, np.int32(ABSENT))])


def _read(
    finder: Finder, words: NoteWords, folded: Found, stemmed: Found
) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """P(tag) of each word, and the likeliest tags; outside of every mention where there is no tagger."""
    if finder.tagger is None or not len(words):
        nothing = np.zeros((len(words), N_TAGS), np.float32)
        nothing[:, OUTSIDE] = 1
        return nothing, np.zeros(len(words), np.int8)
    values = _values(finder, finder.tagger.alphabet, words, folded, stemmed)
    return finder.tagger.read(values, words.sentences.astype(np.int64))


def _pairs(matches: Matches | Found) -> NDArray[np.int32]:
    return np.stack([matches.first, matches.last], 1)


def _described(
    spans: NDArray[np.int32],
    probabilities: NDArray[np.float32],
    on_path: NDArray[np.int32],
    folded: Found,
    stemmed: Found,
    named: NDArray[np.int32],
) -> Places:
    """Each span once, in reading order, with what is known of it."""
    keys = np.unique(_span_keys(spans))
    first, last = (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)
    inside = np.append(0, np.cumsum(1 - probabilities[:, OUTSIDE].astype(np.float64)))
    return Places(
        first=first,
        last=last,
        probability=_span_probabilities(probabilities, first, last),
        on_path=np.isin(keys, _span_keys(on_path)),
        inside=((inside[last] - inside[first]) / (last - first)).astype(np.float32),
        folded_marked=_at(keys, folded, folded.marked),
        folded_share=_at(keys, folded, folded.shares),
        stemmed_marked=_at(keys, stemmed, stemmed.marked),
        stemmed_share=_at(keys, stemmed, stemmed.shares),
        named=np.isin(keys, _span_keys(named)),
    )


def _span_keys(spans: NDArray[np.int32]) -> NDArray[np.int64]:
    """One number for a span; their order is that of reading."""
    return (spans[:, 0].astype(np.int64) << 32) | spans[:, 1]


def _at(keys: NDArray[np.int64], found: Found, values: NDArray[Any]) -> NDArray[np.float32]:
    """What the dictionary says of each span, 0 where it does not know it."""
    described = np.zeros(len(keys), np.float32)
    known = np.searchsorted(keys, _span_keys(_pairs(found)))
    there = known < len(keys)
    there[there] = keys[known[there]] == _span_keys(_pairs(found))[there]
    described[known[there]] = values[there]
    return described


@njit(cache=True)
def _likely_spans(probabilities, sentences, threshold, longest):  # type: ignore[no-untyped-def]
    """Every span within a sentence of which each word has its tag with more than the threshold."""
    rows = [(np.int32(0), np.int32(0)) for _ in range(0)]  # empty, but its type is known
    for sentence in range(len(sentences) - 1):
        for first in range(sentences[sentence], sentences[sentence + 1]):
            if probabilities[first, SINGLE] > threshold:
                rows.append((np.int32(first), np.int32(first + 1)))
            if probabilities[first, BEGIN] <= threshold:
                continue
            for end in range(first + 1, min(first + longest, sentences[sentence + 1])):
                if probabilities[end, END] > threshold:
                    rows.append((np.int32(first), np.int32(end + 1)))
                if probabilities[end, INSIDE] <= threshold:
                    break
    spans = np.empty((len(rows), 2), np.int32)
    for row in range(len(rows)):
        spans[row, 0], spans[row, 1] = rows[row]
    return spans


@njit(cache=True)
def _span_probabilities(probabilities, first, last):  # type: ignore[no-untyped-def]
    found = np.empty(len(first), np.float32)
    for span in range(len(first)):
        begin, end = first[span], last[span] - 1
        if begin == end:
            found[span] = probabilities[begin, SINGLE]
            continue
        least = min(probabilities[begin, BEGIN], probabilities[end, END])
        for word in range(begin + 1, end):
            least = min(least, probabilities[word, INSIDE])
        found[span] = least
    return found
