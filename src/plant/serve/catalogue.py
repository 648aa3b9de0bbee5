"""The code book as a coder searches it: by code, by words as they are typed, by synonyms.

Words of all names lie sorted, and the names of each word beside each other: what begins with a few letters is one
slice, and the names that have all words are a product of masks. 98,000 codes take a few milliseconds.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.icd import ancestors, chapter, normalise
from plant.codes.lists import chapters, titles
from plant.codes.systems import JOINED, SYSTEMS
from plant.codes.tabular import items
from plant.errors import CodeError
from plant.text.folding import fold

WORD = re.compile(r"[^\W_]+")
END = "\0"  # of a name: no name has it
SPACED = bytes(byte if byte > 127 or chr(byte).isalnum() or chr(byte) == END else ord(" ") for byte in range(256))
"""ASCII characters that stand in no word become blanks."""
BEYOND = "\U0010ffff"  # sorts after every word with the same beginning
VAGUE = frozenset({"unspecified", "nos", "organism", "site"})  # a name is not longer for them
STEM = 4  # letters that are left of a word that nothing matched
SHORT: Mapping[str, str] = {
    "A00-B99": "Infectious",
    "C00-D49": "Neoplasms",
    "D50-D89": "Blood",
    "E00-E89": "Endocrine",
    "F01-F99": "Mental",
    "G00-G99": "Nervous",
    "H00-H59": "Eye",
    "H60-H95": "Ear",
    "I00-I99": "Circulatory",
    "J00-J99": "Respiratory",
    "K00-K95": "Digestive",
    "L00-L99": "Skin",
    "M00-M99": "Musculoskeletal",
    "N00-N99": "Genitourinary",
    "O00-O9A": "Pregnancy",
    "P00-P96": "Perinatal",
    "Q00-QA0": "Congenital",
    "R00-R99": "Symptoms",
    "S00-T88": "Injury",
    "U00-U85": "Special",
    "V00-Y99": "External cause",
    "Z00-Z99": "Status",
}
"""Chapters of ICD-10-CM in a word, for rows that have room for no more."""


@dataclass(frozen=True)
class Hit:
    """A code that a search finds, and the name that matched."""

    code: str
    matched: str
    kind: Literal["code", "title", "synonym"]


@dataclass(frozen=True)
class Found:
    """The best hits of a search, and how many codes there are in all."""

    total: int
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class Catalogue:
    """Codes with all their names, laid out for searching; `known` are the codes that the coder can suggest."""

    system: str
    codes: tuple[str, ...]
    names: tuple[str, ...]
    owners: NDArray[np.int32]  # the code of each name
    is_title: NDArray[np.bool_]
    sizes: NDArray[np.int32]  # words of each name that say something
    firsts: NDArray[np.int32]  # the first word of each name
    words: tuple[str, ...]  # sorted
    starts: NDArray[np.int64]  # where the names of each word begin
    postings: NDArray[np.int32]
    known: frozenset[str]

    @cached_property
    def first_name(self) -> Mapping[str, int]:
        """The place of each code's title among the names."""
        places = np.flatnonzero(self.is_title).tolist()
        return {self.codes[self.owners[place]]: place for place in places}

    @cached_property
    def by_bare_code(self) -> tuple[tuple[str, str], ...]:
        """Codes as they are typed (without dots), sorted, with the codes themselves."""
        return tuple(sorted((bare(code), code) for code in self.codes))

    @cached_property
    def leaves(self) -> frozenset[str]:
        """Codes that no other continues: in most systems, those that may be reported."""
        pairs = zip(self.by_bare_code, (*self.by_bare_code[1:], ("", "")), strict=True)
        return frozenset(code for (own, code), (following, _) in pairs if not following.startswith(own))

    @cached_property
    def liked(self) -> NDArray[np.float32]:
        """What speaks for a name whatever is searched for: titles, codes without finer ones, codes of the coder."""
        known = np.array([code in self.known for code in self.codes], np.bool_)[self.owners]
        leaf = np.array([code in self.leaves for code in self.codes], np.bool_)[self.owners]
        return (0.5 * self.is_title + 0.6 * known + 0.5 * leaf).astype(np.float32)

    def title(self, code: str) -> str:
        """What a code is called; empty where it is not in the list."""
        place = self.first_name.get(code)
        return "" if place is None else self.names[place]

    def chapter(self, code: str) -> str:
        """The chapter of a code in a word or two."""
        return _short_chapter(code, self.system)

    def path(self, code: str) -> list[str]:
        """What a code belongs to, from the chapter down to its category: a line that says where one is."""
        if code not in self._paths:
            self._paths[code] = tuple(self._path(code))
        return list(self._paths[code])

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        """Those that were asked for: the same few thousand codes are suggested again and again."""
        return {}

    def _path(self, code: str) -> Iterator[str]:
        try:
            above = [node for node in ancestors(code, self.system) if node in self.first_name and node != code]
        except CodeError:
            return
        told = (f"{node} {self.title(node)}" for node in reversed(above))
        yield from filter(None, (self.chapter(code), *told))

    def search(self, query: str, *, limit: int = 20) -> Found:
        """The best codes for what was typed: codes that begin with it, then names that have all its words."""
        by_code = self._by_code(query)
        words = [] if by_code else words_of(query)
        by_name, scores = self._by_names(words) if words else (np.zeros(0, np.int64), np.zeros(0, np.float32))
        hits = {code: Hit(code, "", "code") for code in by_code[:limit]}
        owners = self.owners[by_name]
        for place in np.lexsort((owners, -scores)).tolist():
            if len(hits) == limit:
                break
            code, name = self.codes[owners[place]], int(by_name[place])
            kind: Literal["title", "synonym"] = "title" if self.is_title[name] else "synonym"
            hits.setdefault(code, Hit(code, "" if kind == "title" else self.names[name], kind))
        return Found(len(by_code) + len(np.unique(owners)), tuple(hits.values()))

    def _by_code(self, query: str) -> list[str]:
        typed = bare(query)
        if not typed or " " in query.strip() or not any(map(str.isdigit, typed)):
            return []
        first = bisect_left(self.by_bare_code, (typed, ""))
        last = bisect_left(self.by_bare_code, (typed + BEYOND, ""))
        return [code for _, code in self.by_bare_code[first:last]]

    def _by_names(self, words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Names with all the words, or with all their beginnings, or with as many of them as any name has."""
        masks = np.array([self._names_with(word) for word in words])
        if not masks.all(axis=0).any():
            masks = np.array([self._names_with(word[: max(STEM, len(word) - 3)]) for word in words])
        counts = masks.sum(axis=0)
        most = int(counts.max(initial=0))
        found = np.flatnonzero(counts == most) if most else np.zeros(0, np.int64)
        return found, self._scores(found, words)

    def _names_with(self, beginning: str) -> NDArray[np.bool_]:
        mask = np.zeros(len(self.names), np.bool_)
        first, last = bisect_left(self.words, beginning), bisect_left(self.words, beginning + BEYOND)
        mask[self.postings[self.starts[first] : self.starts[last]]] = True
        return mask

    def _scores(self, names: NDArray[np.int64], words: Sequence[str]) -> NDArray[np.float32]:
        """Whole words count more than beginnings, and names of little else more than long ones."""
        whole = np.zeros(len(self.names), np.float32)
        for word in set(words):
            place = bisect_left(self.words, word)
            if place < len(self.words) and self.words[place] == word:
                whole[self.postings[self.starts[place] : self.starts[place + 1]]] += 1
        share = len(words) / np.maximum(self.sizes[names], len(words))
        first, last = bisect_left(self.words, words[0]), bisect_left(self.words, words[0] + BEYOND)
        leads = (self.firsts[names] >= first) & (self.firsts[names] < last)
        scores = self.liked[names] + 2 * share + whole[names] / len(words) + 0.8 * leads
        return scores.astype(np.float32)


def bare(code: str) -> str:
    """A code without its dots and blanks, in capitals."""
    return code.strip().replace(".", "").upper()


def words_of(text: str) -> list[str]:
    """The folded words of what was typed."""
    return [fold(word) for word in WORD.findall(text)]


def catalogue_for(book: CodeBook, known: Iterable[str]) -> Catalogue:
    """All codes of the book's system with their packaged names, and the names that the book has for its own."""
    names = whole_list(book.system)
    known = tuple(known)
    for code in dict.fromkeys((*book.codes, *known)):
        own = book.names(code) or ("",)
        names[code] = tuple(dict.fromkeys((own[0], *own[1:], *names.get(code, ()))))
    built = build_catalogue(names, book.system, known=frozenset(known))
    for query in ("a0", "a"):  # by code and by words: what a first search works out, before anyone waits for it
        built.search(query)
    _ = built.first_name
    return built


def whole_list(system: str) -> dict[str, tuple[str, ...]]:
    """Every code of a system that a package lists, with its names."""
    if system in JOINED:
        return {code: names for part in JOINED[system] for code, names in whole_list(part).items()}
    if system == "icd10cm":
        written = SYSTEMS[system].written.fullmatch
        return {code: names for code, names in items() if written(code)}
    if system in ("icd9-diagnosis", "icd9-procedure", "icd10pcs"):
        return {normalise(code, system): (name,) for code, name in titles(system).items()}
    return {}


def build_catalogue(
    names: Mapping[str, Sequence[str]], system: str = "other", *, known: frozenset[str] = frozenset()
) -> Catalogue:
    """Codes and their names, the title first, laid out for searching."""
    codes = tuple(names)
    counts = np.fromiter(map(len, names.values()), np.int32, len(codes))
    listed = tuple(chain.from_iterable(names.values()))
    is_title = np.zeros(len(listed), np.bool_)
    is_title[(np.cumsum(counts) - counts)[counts > 0]] = True
    words, read, owners = _words_of_all(listed)
    starts, postings = _postings(read, owners, len(words), len(listed))
    vague = np.fromiter((word in VAGUE for word in words), np.bool_, len(words))
    firsts = np.full(len(listed), -1, np.int32)
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    firsts[owners[begins]] = read[begins]
    return Catalogue(
        system=system,
        codes=codes,
        names=listed,
        owners=np.repeat(np.arange(len(codes), dtype=np.int32), counts),
        is_title=is_title,
        sizes=np.bincount(owners[~vague[read]], minlength=len(listed)).astype(np.int32),
        firsts=firsts,
        words=words,
        starts=starts,
        postings=postings,
        known=known,
    )


def _words_of_all(names: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32], NDArray[np.int64]]:
    """All words sorted; then the number of each word that is read, and its name.

    All names are one row of bytes: a million words are parted in a tenth of the time of a search in each name.
    """
    plain = (name if name.isascii() else " ".join(WORD.findall(name)) for name in names)
    written = f" {END} ".join(name.replace(END, " ") for name in plain).encode().translate(SPACED).split()
    end = END.encode()
    folded = {form: fold(form.decode()) for form in set(written) - {end}}
    words = tuple(sorted(set(folded.values())))
    numbers = {word: number for number, word in enumerate(words)}
    number_of = {end: -1, **{form: numbers[word] for form, word in folded.items()}}
    read = np.fromiter(map(number_of.__getitem__, written), np.int32, len(written))
    owners = np.cumsum(read < 0, dtype=np.int64)
    return words, read[read >= 0], owners[read >= 0]


def _postings(
    read: NDArray[np.int32], owners: NDArray[np.int64], words: int, names: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The names of each word, each once, beside each other; and where those of each word begin."""
    pairs = np.sort(read.astype(np.int64) * names + owners)  # sorted by hand: np.unique would take ten times as long
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    counts = np.bincount(pairs // names, minlength=words) if names else np.zeros(0, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return starts, (pairs % max(names, 1)).astype(np.int32)


@lru_cache(maxsize=1 << 14)
def _short_chapter(code: str, system: str) -> str:
    """The chapter of a code in a word or two: the same few thousand codes are suggested again and again."""
    try:
        name = chapter(code, system)
    except CodeError:
        return ""
    return _short_chapters(system).get(name, name)


@cache
def _short_chapters(system: str) -> Mapping[str, str]:
    """The short name of each chapter's name; systems other than ICD-10-CM have the long ones only."""
    if "icd10cm" not in JOINED.get(system, (system,)):
        return {}
    return {found.name: SHORT[found.range] for found in chapters("icd10cm") if found.range in SHORT}
