"""Evidence that people can read: whole mentions in place of single words, and what near them changes their meaning.

Explainers weigh words, so that what is lit may be half of what a person would mark. Three steps over the words of the
note, none of which asks the coder again: a span grows over neighbours that stand in a name of its code, spans of one
sentence with next to nothing between them are joined, and function words at the ends are left out. What negates a
phrase, makes it doubtful, or says that it is someone else's or of the past, is told with the place of the cue.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from plant.text.cues import FoundCues, cue_distances, load_cues
from plant.text.folding import fold
from plant.text.language import FUNCTION_WORDS, language_of
from plant.text.sections import sections_of
from plant.text.tokenizer import tokenize
from plant.types import Evidence

BETWEEN = 1  # words that may lie between two parts of one phrase, or before a neighbour that a name has
STEM = 5  # letters in which two words of one family agree
WORD = re.compile(r"[^\W_]+")
BORDER = re.compile(r"[.!?;]\s|\n")
CAUTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "negated": ("negation", "negation_after"),
        "family": ("family",),
        "uncertain": ("hypothesis", "hypothesis_after"),
        "history": ("history",),
    }
)
"""What is told of a phrase, the gravest first, and the kinds of cues that say it."""


@dataclass(frozen=True)
class Phrase:
    """Words that speak for a code; `matched` is a name of the code that they hold, `cue` what the caution rests on."""

    start: int
    end: int
    weight: float
    caution: str = ""
    cue: tuple[int, int] | None = None
    matched: str = ""
    why: str = ""


@dataclass(frozen=True)
class ReadText:
    """The words of a note, once for all its codes."""

    text: str
    words: tuple[str, ...]  # folded
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    sentences: NDArray[np.int32]  # the sentence of each word
    cues: FoundCues
    function_words: frozenset[str]
    family: NDArray[np.bool_]  # words in a section on the family

    @cached_property
    def listed_starts(self) -> list[int]:
        """The starts for looking up one place, which takes a list a tenth of the time."""
        return self.starts.tolist()

    @cached_property
    def listed_ends(self) -> list[int]:
        """The same of the ends."""
        return self.ends.tolist()

    @cached_property
    def listed_sentences(self) -> list[int]:
        """The same of the sentences."""
        return self.sentences.tolist()


def read_text(text: str) -> ReadText:
    """The words, sentences and cues of a note, in the language that it is written in."""
    words = tokenize(text, keep_numbers=True)
    folded = tuple(map(fold, words.forms))
    language = language_of(words.forms)
    borders = np.array([found.end() for found in BORDER.finditer(text)], np.int32)
    sentences = np.searchsorted(borders, words.starts, side="right").astype(np.int32)
    firsts = np.flatnonzero(np.diff(sentences, prepend=-1))
    sections = sections_of(text, language)
    in_family = np.array([name == "family" for name in sections.names], np.bool_)
    return ReadText(
        text=text,
        words=folded,
        starts=words.starts,
        ends=words.ends,
        sentences=sentences,
        cues=cue_distances(folded, load_cues(language), sentences=firsts),
        function_words=_function_words(language),
        family=in_family[sections.at(words.starts)] if len(words) else np.zeros(0, np.bool_),
    )


def phrases(read: ReadText, evidence: Sequence[Evidence], names: Sequence[str] = ()) -> tuple[Phrase, ...]:
    """The evidence of a code as phrases, strongest first; names are those of the code.

    >>> note = "No chest pain. Acute kidney injury, known to us."
    >>> found = phrases(read_text(note), [Evidence(21, 27, "kidney", 1.0)], ["Acute kidney injury"])
    >>> [(note[one.start : one.end], one.matched) for one in found]
    [('Acute kidney injury', 'Acute kidney injury')]
    """
    return phrases_of_codes(read, [(evidence, names)])[0]


def phrases_of_codes(
    read: ReadText, codes: Sequence[tuple[Sequence[Evidence], Sequence[str]]]
) -> list[tuple[Phrase, ...]]:
    """The same for all codes of a note, each with its names: what stands near the phrases is looked up once for all."""
    placed = [_placed(read, evidence, _stemmed(tuple(names), read.function_words)) for evidence, names in codes]
    told = iter(_with_cautions(read, [phrase for found in placed for phrase in found]))
    return [tuple(next(told) for _ in found) for found in placed]


def cautioned(read: ReadText, evidence: Sequence[Evidence]) -> tuple[Phrase, ...]:
    """Evidence that is made of whole phrases already, with what changes their meaning."""
    return tuple(_with_cautions(read, [Phrase(one.start, one.end, one.weight, why=one.why) for one in evidence]))


@dataclass(frozen=True)
class Stemmed:
    """The names of a code as stems of their words, without function words."""

    names: tuple[tuple[str, frozenset[str]], ...]
    vocabulary: frozenset[str]


@lru_cache(maxsize=1 << 14)
def _stemmed(names: tuple[str, ...], function_words: frozenset[str]) -> Stemmed:
    stems = [frozenset(_stem(word) for word in _words(name) if word not in function_words) for name in names]
    own = tuple((name, stem) for name, stem in zip(names, stems, strict=True) if stem)
    return Stemmed(own, frozenset().union(*stems))


def _placed(read: ReadText, evidence: Sequence[Evidence], names: Stemmed) -> list[Phrase]:
    grown = [(_grown(read, *_place(read, one), names.vocabulary), one.weight, one.why) for one in evidence]
    joined = sorted(_joined(read, grown), key=lambda one: (-one[1], one[0]))
    return [_phrase(read, first, last, weight, why, names) for (first, last), weight, why in joined if last > first]


Placed = tuple[tuple[int, int], float, str]


def _place(read: ReadText, evidence: Evidence) -> tuple[int, int]:
    """The words [first, last) of a span of characters."""
    return bisect_right(read.listed_ends, evidence.start), bisect_left(read.listed_starts, evidence.end)


def _grown(read: ReadText, first: int, last: int, vocabulary: frozenset[str]) -> tuple[int, int]:
    """A span with the neighbours of its sentence that a name of the code has, without function words at its ends."""
    while (near := _neighbour(read, first - 1, -1, first, vocabulary)) is not None:
        first = near
    while (near := _neighbour(read, last, 1, last - 1, vocabulary)) is not None:
        last = near + 1
    while first < last - 1 and read.words[first] in read.function_words:
        first += 1
    while last - 1 > first and read.words[last - 1] in read.function_words:
        last -= 1
    return first, last


def _neighbour(read: ReadText, place: int, step: int, home: int, vocabulary: frozenset[str]) -> int | None:
    """The next word of the names in a direction, where only function words, at most `BETWEEN`, lie before it."""
    passed = 0
    while 0 <= place < len(read.words) and read.listed_sentences[place] == read.listed_sentences[home]:
        if _stem(read.words[place]) in vocabulary:
            return place
        if read.words[place] not in read.function_words or passed == BETWEEN:
            return None
        passed += 1
        place += step
    return None


def _joined(read: ReadText, placed: Sequence[Placed]) -> list[Placed]:
    """Spans of a sentence that touch, or have function words alone between them, as one; their weights add up."""
    joined: list[Placed] = []
    for (first, last), weight, why in sorted(placed):
        if joined and _belong(read, joined[-1][0][1], first):
            (begin, end), heavier, reason = joined.pop()
            joined.append(((begin, max(end, last)), heavier + weight, reason or why))
        else:
            joined.append(((first, last), weight, why))
    return joined


def _belong(read: ReadText, end: int, first: int) -> bool:
    if first < end:
        return True
    between = read.words[end:first]
    few = len(between) <= BETWEEN and all(word in read.function_words for word in between)
    return few and first < len(read.words) and read.listed_sentences[end - 1] == read.listed_sentences[first]


def _phrase(read: ReadText, first: int, last: int, weight: float, why: str, names: Stemmed) -> Phrase:
    matched = _held_name(read, first, last, names)
    start, end = read.listed_starts[first], read.listed_ends[last - 1]
    return Phrase(start, end, round(min(1.0, weight), 6), matched=matched, why=why)


def _held_name(read: ReadText, first: int, last: int, names: Stemmed) -> str:
    """The longest name all of whose words, but for function words, stand in the phrase."""
    held = {_stem(word) for word in read.words[first:last]}
    holds = [(len(own), name) for name, own in names.names if own <= held]
    return max(holds, key=lambda found: found[0])[1] if holds else ""


def _with_cautions(read: ReadText, found: Sequence[Phrase]) -> list[Phrase]:
    """The gravest that cues near each phrase say of it; a section on the family is a cue for all that stands in it."""
    if not found or not read.words:
        return list(found)
    first = np.searchsorted(read.ends, np.array([phrase.start for phrase in found]), side="right")
    last = np.searchsorted(read.starts, np.array([phrase.end for phrase in found]), side="left")
    told: dict[int, tuple[str, tuple[int, int] | None]] = {}
    for row in np.flatnonzero(first >= last).tolist():  # no word, nothing to say
        told[row] = ("", None)
    for caution, kinds in CAUTIONS.items():
        for kind in kinds:
            for row, cue in _cues(read, kind, first, last):
                told.setdefault(row, (caution, cue))
        if caution == "family":
            for row in np.flatnonzero(read.family[np.minimum(first, len(read.family) - 1)]).tolist():
                told.setdefault(row, (caution, None))
    return [_told(phrase, *told[row]) if row in told else phrase for row, phrase in enumerate(found)]


def _told(phrase: Phrase, caution: str, cue: tuple[int, int] | None) -> Phrase:
    return replace(phrase, caution=caution, cue=cue)


def _cues(
    read: ReadText, kind: str, first: NDArray[np.integer], last: NDArray[np.integer]
) -> list[tuple[int, tuple[int, int]]]:
    """The phrases that a kind of cue reaches, with the characters of the nearest."""
    if kind not in read.cues.kinds or not len(read.cues.places[kind]):
        return []
    rows = np.flatnonzero(read.cues.reaches(kind, first, last))
    return list(zip(rows.tolist(), _nearest(read, kind, first[rows], last[rows]), strict=True))


def _nearest(
    read: ReadText, kind: str, first: NDArray[np.integer], last: NDArray[np.integer]
) -> Iterator[tuple[int, int]]:
    """The characters of the cue of a kind that is nearest to words [first, last), on its side, which has one."""
    places, side = read.cues.places[kind], read.cues.kinds[kind].side
    before = np.searchsorted(places[:, 1], first, side="right") - 1
    after = np.searchsorted(places[:, 0], last, side="left")
    is_before, is_after = (before >= 0) & (side != "after"), (after < len(places)) & (side != "before")
    nearer = first - places[before, 1] <= places[np.minimum(after, len(places) - 1), 0] - last
    begin, end = places[np.where(is_before & (nearer | ~is_after), before, after)].T
    return zip(read.starts[begin].tolist(), read.ends[end - 1].tolist(), strict=True)


@cache
def _function_words(language: str) -> frozenset[str]:
    return frozenset(map(fold, FUNCTION_WORDS.get(language, ())))


def _words(name: str) -> list[str]:
    return [fold(word) for word in WORD.findall(name)]


def _stem(word: str) -> str:
    """Letters by which inflected forms of a word are the same; numbers and short words are themselves."""
    return word[:STEM] if len(word) > STEM and word.isalpha() else word
