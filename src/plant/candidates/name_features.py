"""What speaks for a code where a wording stands: probabilities of its parts, equal names, the nearest name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.candidates.name_table import NameTable, content_numbers, numbers_in
from plant.candidates.names import SHOWN, Namer, shown_values
from plant.candidates.nearest import NameIndex, arrays_of
from plant.candidates.wordings_read import WordingsRead
from plant.store.ragged import Ragged

FLOOR = 1e-6  # of a probability: a value that the ridge has not met is not impossible
FLAGS = ("folded", "stemmed", "bag", "book", "book bag", "nearest", "composed")
SHARED = ("folded", "stemmed", "bag")

NAME_FEATURES: tuple[str, ...] = (
    *(f"part {part}" for part in range(1, SHOWN + 1)),  # probabilities; 1 where the system has fewer parts
    "product",
    "product rank",  # among the codes of the span, from 0
    "product below best",  # logarithms
    "product share",
    *(f"{way} {what}" for way in SHARED for what in ("share", "count")),  # of equal wordings; logarithm of the count
    "cosine",  # with the nearest name of the code
    "cosine rank",
    "cosine below best",
    "family cosine",  # with the nearest name of the code's first part
    "span covered",  # share of the rarity of the span's content that the nearest name has
    "name covered",
    "name is a coder's",
    "family span covered",
    "family name covered",
    "family name is a coder's",
    "numbers shared",
    "numbers of the span alone",
    "numbers of the name alone",
    "notes",  # logarithm of 1 + fitted notes
    "family notes",
    "in the book",
    "codes of the span",
    *(f"value {part}" for part in range(2, SHOWN + 1)),  # what the part is, as a number; -1 where the code has none
    *(f"by {way}" for way in FLAGS),
)


@dataclass(frozen=True)
class Ways:
    """Rows of (wording, code), in which ways each was found, and how often coders marked the equal wording so."""

    wording: NDArray[np.int64]
    code: NDArray[np.int64]
    by: Mapping[str, NDArray[np.bool_]]
    counts: Mapping[str, NDArray[np.float32]]

    def found(self, *ways: str) -> NDArray[np.bool_]:
        """Whether a row was found in any of these ways."""
        return np.logical_or.reduce([self.by.get(way, np.zeros(len(self.code), np.bool_)) for way in ways])


@dataclass(frozen=True)
class Codes:
    """The codes of the rows: those of the namer and the unlisted ones, as far as features need them."""

    values: NDArray[np.int64]  # [codes, parts]
    family: NDArray[np.int64]  # -1: no code of the namer has this first part
    shown: NDArray[np.float32]  # [codes, SHOWN - 1]
    notes: NDArray[np.float32]
    in_book: NDArray[np.bool_]


@dataclass(frozen=True)
class NearestNames:
    """The nearest name of each row, -1 for none, with the cosine and what name and span cover of each other."""

    name: NDArray[np.int64]  # taught ones, then further ones
    cosine: NDArray[np.float32]
    span_covered: NDArray[np.float32]
    name_covered: NDArray[np.float32]


def features_of(namer: Namer, read: WordingsRead, rows: Ways, unlisted: Sequence[str]) -> NDArray[np.float32]:
    """The columns of `NAME_FEATURES`, one row for each row."""
    codes = _codes(namer, rows, unlisted)
    own, family = _nearest_names(namer, read, rows, codes)
    columns = {
        **_part_features(namer, read, rows, codes),
        **_equal_features(rows),
        **_nearest_features(namer, rows, own, family),
        **_number_features(namer, read, rows, own),
        **_code_features(namer, rows, codes),
        **{f"by {way}": rows.found(way, way.replace("book", "further")) for way in FLAGS},
    }
    return np.stack([columns[name] for name in NAME_FEATURES], axis=1, dtype=np.float32, casting="unsafe")


def _codes(namer: Namer, rows: Ways, unlisted: Sequence[str]) -> Codes:
    """What features need of the codes that stand in rows, one line for each row."""
    listed = len(namer.codes)
    more = [namer.parts.split(code) for code in unlisted]
    inside = np.minimum(rows.code, listed - 1)
    outside = np.flatnonzero(rows.code >= listed)
    values, family, shown = namer.code_values[inside], namer.family[inside], namer.shown_values[inside]
    notes, in_book = namer.notes[inside].astype(np.float32), namer.in_book[inside]
    for row in outside.tolist():
        parts = more[rows.code[row] - listed]
        values[row], family[row] = namer.values.of(parts), namer.families.get(parts[0], -1)
        shown[row] = shown_values(parts)
    notes[outside], in_book[outside] = 0, False
    return Codes(values, family, shown, notes, in_book)


def _part_features(namer: Namer, read: WordingsRead, rows: Ways, codes: Codes) -> dict[str, NDArray[np.float32]]:
    starts = namer.values.starts
    places = np.maximum(codes.values, 0) + starts[:-1]
    chances = np.maximum(read.probabilities[rows.wording[:, None], np.minimum(places, starts[-1] - 1)], FLOOR)
    chances = np.where(codes.values < 0, np.float32(FLOOR), chances)
    logs = np.log(chances).sum(1)
    product = np.exp(logs)
    shown = np.ones((len(product), SHOWN), np.float32)
    shown[:, : min(SHOWN, namer.n_parts)] = chances[:, :SHOWN]
    return {
        **{f"part {part + 1}": shown[:, part] for part in range(SHOWN)},
        "product": product,
        "product rank": _ranks(rows.wording, product),
        "product below best": _best_of(rows.wording, logs) - logs,
        "product share": product / _sum_of(rows.wording, product),
    }


def _equal_features(rows: Ways) -> dict[str, NDArray[np.float32]]:
    found: dict[str, NDArray[np.float32]] = {}
    for way in SHARED:
        total = _sum_of(rows.wording, rows.counts[way])
        found[f"{way} share"] = (rows.counts[way] / np.maximum(total, 1)).astype(np.float32)
        found[f"{way} count"] = np.log1p(total, dtype=np.float32)
    return found


def _nearest_features(
    namer: Namer, rows: Ways, own: NearestNames, family: NearestNames
) -> dict[str, NDArray[np.float32]]:
    coders = np.concatenate([namer.taught.marked > 0, namer.further.marked > 0, [False]])
    return {
        "cosine": own.cosine,
        "cosine rank": _ranks(rows.wording, own.cosine),
        "cosine below best": _best_of(rows.wording, own.cosine) - own.cosine,
        "family cosine": family.cosine,
        "span covered": own.span_covered,
        "name covered": own.name_covered,
        "name is a coder's": coders[own.name].astype(np.float32),
        "family span covered": family.span_covered,
        "family name covered": family.name_covered,
        "family name is a coder's": coders[family.name].astype(np.float32),
    }


def _number_features(namer: Namer, read: WordingsRead, rows: Ways, own: NearestNames) -> dict[str, NDArray[np.float32]]:
    """How many numbers the span and the nearest name of the code share, and how many one of them has alone."""
    spans = np.array([numbers_in(folded) for folded, _ in read.wordings], np.uint64)[rows.wording]
    names = np.concatenate([namer.taught.numbers, namer.further.numbers, np.zeros(1, np.uint64)])[own.name]
    compared = {"shared": spans & names, "of the span alone": spans & ~names, "of the name alone": names & ~spans}
    return {f"numbers {what}": np.bitwise_count(bits).astype(np.float32) for what, bits in compared.items()}


def _code_features(namer: Namer, rows: Ways, codes: Codes) -> dict[str, NDArray[np.float32]]:
    families = np.append(namer.family_notes, 0)[codes.family]
    return {
        "notes": np.log1p(codes.notes),
        "family notes": np.log1p(families).astype(np.float32),
        "in the book": codes.in_book.astype(np.float32),
        "codes of the span": _sum_of(rows.wording, np.ones(len(rows.code), np.float32)),
        **{f"value {part + 2}": codes.shown[:, part] for part in range(SHOWN - 1)},
    }


def _ranks(group: NDArray[np.int64], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """How many of the same group are larger; groups rise."""
    order = np.lexsort((-values, group))
    before = np.arange(len(order)) - np.searchsorted(group, group[order])
    first = np.ones(len(order), np.bool_)  # of equal values
    first[1:] = (values[order][1:] != values[order][:-1]) | (group[order][1:] != group[order][:-1])
    ranks = np.empty(len(order), np.float32)
    ranks[order] = before[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    return ranks


def _best_of(group: NDArray[np.int64], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest value of each row's group."""
    best = np.full(int(group.max(initial=-1)) + 1, -np.inf, values.dtype)
    np.maximum.at(best, group, values)
    return best[group]


def _sum_of(group: NDArray[np.int64], values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.bincount(group, values, minlength=1).astype(np.float32)[group]


def _nearest_names(namer: Namer, read: WordingsRead, rows: Ways, codes: Codes) -> tuple[NearestNames, NearestNames]:
    """Of each row, the nearest name of its code, and of its first part.

    Further names of a first part count as far as their codes stand in rows of the same wording.
    """
    code = np.where(rows.code < len(namer.codes), rows.code, -1)
    taught, further = namer.names_of_code
    own, own_cosine = _nearest_taught(taught, code, rows.wording, read.cosine)
    far, far_cosine = _nearest_further(namer.further.index, further, code, rows.wording, read.further_vectors)
    own = np.where(far_cosine > own_cosine, far + len(namer.taught), own)
    own_cosine = np.maximum(own_cosine, far_cosine)
    family, family_cosine = _nearest_taught(namer.names_of_family, codes.family, rows.wording, read.cosine)
    _spread(rows.wording, codes.family, own, own_cosine, family, family_cosine)
    return _covered(namer, read, rows, own, own_cosine), _covered(namer, read, rows, family, family_cosine)


def _nearest_taught(
    names: Ragged, group: NDArray[np.int64], wording: NDArray[np.int64], cosine: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    best, found = np.full(len(group), -1, np.int64), np.zeros(len(group), np.float32)
    _largest(names.values, names.starts, group, wording, cosine, best, found)
    return best, found


def _nearest_further(
    index: NameIndex, names: Ragged, group: NDArray[np.int64], wording: NDArray[np.int64], queries: csr_array
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    best, found = np.full(len(group), -1, np.int64), np.zeros(len(group), np.float32)
    if len(names.values):
        scratch = np.zeros(index.rows.shape[1], np.float32)
        _largest_product(
            names.values, names.starts, group, wording, *arrays_of(queries), *index.by_name, scratch, best, found
        )
    return best, found


def _covered(
    namer: Namer, read: WordingsRead, rows: Ways, names: NDArray[np.int64], cosine: NDArray[np.float32]
) -> NearestNames:
    shares = np.zeros((2, len(names)), np.float32)
    tables = ((namer.taught, read.words, 0), (namer.further, read.further_words, len(namer.taught)))
    for table, words, first in tables:
        here = np.flatnonzero((names >= first) & (names < first + len(table)))
        if len(here):
            spans = content_numbers(table.vectors, words)
            shares[:, here] = _shares(table, spans, rows.wording[here], names[here] - first)
    return NearestNames(names, cosine, shares[0], shares[1])


def _shares(
    table: NameTable, spans: Ragged, wording: NDArray[np.int64], names: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The shares of rarity that span and name have of each other."""
    known = len(table.vectors.stems)
    rarest = np.float32(1 + np.log(1 + table.vectors.n_names))  # of a stem that no name has
    out = np.zeros((2, len(names)), np.float32)
    contents = table.contents
    given = (spans.values, spans.starts, contents.values, contents.starts)
    _share_rarity(*given, table.vectors.idf[:known], rarest, wording, names, out)
    return out


@njit(cache=True)
def _largest(names, starts, group, wording, cosine, best, found):  # type: ignore[no-untyped-def]
    """The largest cosine with a name of the row's group; the first of equal ones."""
    for row in range(len(group)):
        if group[row] >= 0:
            for place in range(starts[group[row]], starts[group[row] + 1]):
                value = cosine[wording[row], names[place]]
                if value > found[row]:
                    best[row], found[row] = names[place], value


@njit(cache=True)
def _largest_product(  # type: ignore[no-untyped-def]
    names, starts, group, wording, of_query, columns, weights, of_name, name_columns, name_weights, query, best, found
):
    """The same where no table of cosines is: wordings rise, and each is laid out once in the empty `query`."""
    last = -1
    for row in range(len(group)):
        if wording[row] != last:
            if last >= 0:
                query[columns[of_query[last] : of_query[last + 1]]] = 0
            last = wording[row]
            for place in range(of_query[last], of_query[last + 1]):
                query[columns[place]] = weights[place]
        if group[row] >= 0:
            for place in range(starts[group[row]], starts[group[row] + 1]):
                name, value = names[place], np.float32(0)
                for at in range(of_name[name], of_name[name + 1]):
                    value += query[name_columns[at]] * name_weights[at]
                if value > found[row]:
                    best[row], found[row] = name, value


@njit(cache=True)
def _spread(wording, family, own, own_cosine, best, found):  # type: ignore[no-untyped-def]
    """Names of codes of the same family in rows of the same wording are names of the family too."""
    first = 0
    for row in range(len(wording)):
        if wording[row] != wording[first]:
            first = row
        other = first
        while other < len(wording) and wording[other] == wording[row]:
            if family[other] == family[row] and own_cosine[other] > found[row]:
                best[row], found[row] = own[other], own_cosine[other]
            other += 1


@njit(cache=True)
def _share_rarity(spans, span_starts, contents, starts, idf, rarest, wording, names, out):  # type: ignore[no-untyped-def]
    for row in range(len(names)):
        span = spans[span_starts[wording[row]] : span_starts[wording[row] + 1]]
        name = contents[starts[names[row]] : starts[names[row] + 1]]
        shared, in_span, in_name = np.float32(0), np.float32(0), np.float32(0)
        for stem in span:
            in_span += idf[stem] if stem < len(idf) else rarest
            for other in name:
                if stem == other:
                    shared += idf[stem]
        for stem in name:
            in_name += idf[stem]
        if in_span > 0:
            out[0, row] = shared / in_span
        if in_name > 0:
            out[1, row] = shared / in_name
