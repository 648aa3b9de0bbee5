"""The namer: everything known by name, from words that coders marked and from the code book, and codes read by parts.

Names that teach the ridge are few thousand: all marked wordings, and names of the book, titles first, those of fitted
codes and of broader codes first. The other names of the book, be it a whole classification, and names added later are
known too: equal wordings, equal bags of stems and nearest names are looked up in both.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plant.candidates.name_table import (
    Lookup,
    Named,
    NameTable,
    bag_key,
    folded_key,
    lookup,
    name_table,
    names_by_group,
    rows_of,
    stemmed_key,
)
from plant.candidates.nearest import cosines
from plant.candidates.ridge import Ridge, fit_ridge
from plant.candidates.wording import VectorOptions, Wording
from plant.codes.parts import CodeParts, code_parts
from plant.store.ragged import Ragged, offsets, owners

NO_CODE = -1
SHOWN = 4  # parts that have features of their own; the product has them all


@dataclass(frozen=True)
class NamerOptions:
    """How names are believed, and how many candidates a span may have."""

    vectors: VectorOptions = field(default_factory=VectorOptions)
    ridge: float = 0.03
    sharpness: float = 9.0  # of the softmax over the values of a part
    book_weight: float = 0.3  # of a name of the book; a wording marked n times has 1 + ln n
    marked_names: int = 6000  # at most so many marked wordings teach the ridge, the most often marked
    book_names: int = 2000  # at most so many names of the book teach the ridge
    lettered: int = 200_000  # more further names than that are compared by their words alone, not by letters
    first_values: int = 6  # best values of the first part that are put together with
    other_values: int = 3  # the best values of every other part
    composed: int = 10  # at most so many codes are put together
    least_product: float = 0.0005  # of the probabilities of the parts
    least_unlisted: float = 0.002  # of a code that neither a fitted note nor the book has
    nearest: int = 6
    least_cosine: float = 0.35


@dataclass(frozen=True)
class Values:
    """The values of each part that the ridge knows, one part after the other."""

    parts: tuple[tuple[str, ...], ...]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        return offsets([len(values) for values in self.parts])

    @cached_property
    def numbers(self) -> tuple[Mapping[str, int], ...]:
        return tuple({value: number for number, value in enumerate(values)} for values in self.parts)

    def of(self, parts: Sequence[str]) -> list[int]:
        """The number of each part of a code among the values of that part, -1 where the ridge has not met it."""
        return [numbers.get(part, -1) for numbers, part in zip(self.numbers, parts, strict=True)]

    def keys(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """One number for each row of values, -1 where one of them is unknown."""
        keys = np.zeros(len(values), np.int64)
        for part, known in enumerate(self.parts):
            keys = keys * len(known) + values[:, part]
        return np.where((values < 0).any(1), -1, keys)


@dataclass(frozen=True)
class Namer:
    """Codes (those of fitted notes first, then those of the book), their names, and the ridge over the taught names."""

    system: str
    codes: tuple[str, ...]
    notes: NDArray[np.int32]  # fitted notes of each code
    in_book: NDArray[np.bool_]
    values: Values
    taught: NameTable
    further: NameTable
    ridge: Ridge
    options: NamerOptions

    @cached_property
    def parts(self) -> CodeParts:
        return code_parts(self.system)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        return {code: number for number, code in enumerate(self.codes)}

    @cached_property
    def code_parts(self) -> tuple[tuple[str, ...], ...]:
        return tuple(map(self.parts.split, self.codes))

    @cached_property
    def code_values(self) -> NDArray[np.int64]:
        """The numbers of the parts of each code, [codes, parts]."""
        return np.array([self.values.of(parts) for parts in self.code_parts], np.int64).reshape(-1, self.n_parts)

    @cached_property
    def shown_values(self) -> NDArray[np.float32]:
        """What the parts of each code after the first are, as numbers, [codes, SHOWN - 1]."""
        return np.array([shown_values(parts) for parts in self.code_parts], np.float32).reshape(-1, SHOWN - 1)

    @property
    def n_parts(self) -> int:
        return len(self.values.parts)

    @cached_property
    def listed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The keys of all codes that the ridge can name, rising, and the codes."""
        keys = self.values.keys(self.code_values)
        order = np.argsort(keys, kind="stable")
        order = order[keys[order] >= 0]
        return keys[order], order

    @cached_property
    def families(self) -> dict[str, int]:
        """The first parts of all codes, numbered."""
        firsts = dict.fromkeys(parts[0] for parts in self.code_parts)
        return {first: number for number, first in enumerate(firsts)}

    @cached_property
    def family(self) -> NDArray[np.int64]:
        """The number of the first part of each code."""
        return np.array([self.families[parts[0]] for parts in self.code_parts], np.int64)

    @cached_property
    def family_notes(self) -> NDArray[np.int64]:
        """Fitted notes of all codes of each family; a note with two of them counts twice."""
        return np.bincount(self.family, self.notes, minlength=len(self.families)).astype(np.int64)

    @cached_property
    def names_of_code(self) -> tuple[Ragged, Ragged]:
        """The taught and the further names of each code."""
        every = np.arange(len(self.codes))
        taught, further = (names_by_group(table, every, len(self.codes)) for table in (self.taught, self.further))
        return taught, further

    @cached_property
    def names_of_family(self) -> Ragged:
        """The taught names of each first part."""
        return names_by_group(self.taught, self.family, len(self.families))

    @cached_property
    def lookups(self) -> Mapping[str, Lookup]:
        """Codes of equal folded words, equal stems, equal bags; and those of names of the book."""
        found = {
            "folded": lookup(folded_key, self.taught, self.further, marked=True),
            "stemmed": lookup(stemmed_key, self.taught, self.further, marked=True),
            "bag": lookup(bag_key, self.taught, self.further, marked=True),
            "book": lookup(stemmed_key, self.taught, marked=False),
            "book bag": lookup(bag_key, self.taught, marked=False),
        }
        if len(self.further):
            found["further"] = lookup(stemmed_key, self.further, marked=False)
            found["further bag"] = lookup(bag_key, self.further, marked=False)
        return found


def shown_values(parts: Sequence[str]) -> list[float]:
    """Parts after the first as numbers that a tree can divide: the first character in base 36, -1 for no part."""
    first = [part[:1] for part in (*parts[1:SHOWN], *[""] * SHOWN)][: SHOWN - 1]
    return [float(int(character, 36)) if character.isascii() and character.isalnum() else -1.0 for character in first]


def fit_namer(
    marked: Mapping[Wording, Mapping[str, int]],
    book: Mapping[str, Iterable[Wording]],
    notes: Mapping[str, int],
    *,
    system: str,
    options: NamerOptions | None = None,
) -> Namer:
    """Learn from wordings that coders marked, with counts of their codes, and from the names of the codes of a book.

    `notes` says how many fitted notes have each code; a code without any note, marked wording or name is not known.
    """
    options = options or NamerOptions()
    seen = sorted({*notes, *(code for codes in marked.values() for code in codes)})
    codes = (*seen, *sorted(set(book).difference(seen)))
    numbers = {code: number for number, code in enumerate(codes)}
    coders = [Named(wording, numbers[code], n) for wording, found in marked.items() for code, n in found.items() if n]
    books = _ordered(book, numbers, set(seen), code_parts(system))
    known = _most_marked(coders, options.marked_names)
    taught, further = _divided([*coders, *books], known, options.book_names)
    table = name_table(taught, options=options.vectors)
    values = Values(_values_of(codes, table, code_parts(system)))
    return Namer(
        system=system,
        codes=codes,
        notes=np.array([notes.get(code, 0) for code in codes], np.int32),
        in_book=np.array([code in book for code in codes], np.bool_),
        values=values,
        taught=table,
        further=_further_table(further, table, options),
        ridge=_taught_ridge(table, codes, values, system, options),
        options=options,
    )


def with_names(namer: Namer, names: Mapping[str, Iterable[Wording]]) -> Namer:
    """The namer with further names of the book, of codes that it knows or of new ones; what it learned stays."""
    new = sorted(set(names).difference(namer.codes))
    codes = (*namer.codes, *new)
    numbers = {code: number for number, code in enumerate(codes)}
    added = [Named(wording, numbers[code], 0) for code, wordings in names.items() for wording in wordings if wording[1]]
    in_book = np.append(namer.in_book, np.ones(len(new), np.bool_))
    in_book[[numbers[code] for code in names]] = True
    further = [*rows_of(namer.further), *added]
    return replace(
        namer,
        codes=codes,
        notes=np.append(namer.notes, np.zeros(len(new), np.int32)),
        in_book=in_book,
        further=_further_table(further, namer.taught, namer.options),
    )


def _further_table(names: Sequence[Named], taught: NameTable, options: NamerOptions) -> NameTable:
    sizes = options.vectors.sizes if len(names) <= options.lettered else ()
    return name_table(names, options=replace(options.vectors, sizes=sizes), beside=taught.vectors)


def _ordered(
    book: Mapping[str, Iterable[Wording]], numbers: Mapping[str, int], seen: set[str], parts: CodeParts
) -> list[Named]:
    """The names of the book: titles before synonyms, fitted codes before others, codes of fewer parts before others."""
    given = [(code, place, name) for code, names in book.items() for place, name in enumerate(names) if name[1]]
    broad = {code: len([part for part in parts.split(code) if part]) for code in book}
    given.sort(key=lambda name: (name[1] > 0, name[0] not in seen, broad[name[0]], name[0], name[1]))
    return [Named(wording, numbers[code], 0) for code, _, wording in given]


def _most_marked(coders: Sequence[Named], limit: int) -> set[Wording]:
    """The wordings that were marked most often; of equal ones the first in the alphabet."""
    counts: Counter[Wording] = Counter()
    for name in coders:
        counts[name.wording] += name.count
    return set(sorted(counts, key=lambda wording: (-counts[wording], wording))[:limit])


def _divided(names: list[Named], known: set[Wording], limit: int) -> tuple[list[Named], list[Named]]:
    """Those that teach: the known, and at most `limit` further wordings of the book; and the others."""
    taught: dict[Wording, None] = {}
    for name in names:
        if name.wording not in known and not name.count and len(taught) < limit:
            taught[name.wording] = None
    chosen = known.union(taught)
    return [name for name in names if name.wording in chosen], [name for name in names if name.wording not in chosen]


def _values_of(codes: Sequence[str], table: NameTable, parts: CodeParts) -> tuple[tuple[str, ...], ...]:
    """The values of each part among the codes of the names."""
    split = [parts.split(codes[code]) for code in np.unique(table.codes.values).tolist()]
    return tuple(tuple(sorted({code[part] for code in split})) for part in range(len(parts.names)))


def _taught_ridge(table: NameTable, codes: Sequence[str], values: Values, system: str, options: NamerOptions) -> Ridge:
    marked = table.marked
    weights = np.where(marked > 0, 1 + np.log(np.maximum(marked, 1)), options.book_weight)
    targets = _targets(table, codes, values, code_parts(system))
    return fit_ridge(cosines(table.index, table.index.rows), targets, weights, ridge=options.ridge)


def _targets(table: NameTable, codes: Sequence[str], values: Values, parts: CodeParts) -> NDArray[np.float32]:
    """The share of each value of each part among the codes of a name: what coders marked goes before the book."""
    rows = owners(table.codes.starts)
    counts = np.where(table.marked[rows] > 0, table.counts, 1).astype(np.float32)
    shares = counts / np.bincount(rows, counts, minlength=len(table)).astype(np.float32)[rows]
    targets = np.zeros((len(table), values.starts[-1]), np.float32)
    of_code = {code: values.of(parts.split(codes[code])) for code in np.unique(table.codes.values).tolist()}
    numbers = np.array([of_code[code] for code in table.codes.values.tolist()], np.int64).reshape(-1, len(values.parts))
    for part, start in enumerate(values.starts[:-1]):
        np.add.at(targets, (rows, start + numbers[:, part]), shares)
    return targets
