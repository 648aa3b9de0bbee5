"""A namer as arrays and plain options, and back: words are written down once, vectors are made again from them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates.name_table import NameTable
from plant.candidates.names import Namer, NamerOptions, Values
from plant.candidates.ridge import Ridge
from plant.candidates.wording import VectorOptions, Wording, fit_vectors
from plant.store.checks import check_finite, check_numbers, check_shape, check_starts
from plant.store.ragged import Ragged, offsets

LINE = "\n"  # stands in no word and no code
MOST = 1 << 31  # notes


def pack_namer(namer: Namer) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Options that JSON can hold, and arrays."""
    options = {
        "system": namer.system,
        "options": asdict(namer.options),
        "codes": list(namer.codes),
        "further_sizes": list(namer.further.vectors.options.sizes),
        "values": [list(values) for values in namer.values.parts],
    }
    arrays = {
        "notes": namer.notes,
        "in_book": namer.in_book,
        "coefficients": namer.ridge.coefficients,
        "means": namer.ridge.means,
        **_packed_table(namer.taught, "taught"),
        **_packed_table(namer.further, "further"),
    }
    return options, arrays


def unpack_namer(options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Namer:
    """The namer that was packed."""
    given = options["options"]
    vectors = VectorOptions(**{**given["vectors"], "sizes": tuple(given["vectors"]["sizes"])})
    own = NamerOptions(**{**given, "vectors": vectors})
    n_codes = len(options["codes"])
    check_shape("notes", arrays["notes"], (n_codes,), "iu")
    check_numbers("notes", arrays["notes"], MOST)
    check_shape("in_book", arrays["in_book"], (n_codes,), "b")
    taught = _unpacked_table(arrays, "taught", own.vectors, n_codes=n_codes)
    check_shape("means", arrays["means"], (sum(map(len, options["values"])),))
    check_shape("coefficients", arrays["coefficients"], (len(taught), len(arrays["means"])))
    check_finite({"means": arrays["means"], "coefficients": arrays["coefficients"]})
    further = replace(own.vectors, sizes=tuple(options["further_sizes"]))
    return Namer(
        system=options["system"],
        codes=tuple(options["codes"]),
        notes=arrays["notes"],
        in_book=arrays["in_book"],
        values=Values(tuple(tuple(values) for values in options["values"])),
        taught=taught,
        further=_unpacked_table(arrays, "further", further, n_codes=n_codes, beside=taught),
        ridge=Ridge(arrays["coefficients"], arrays["means"]),
        options=own,
    )


def _packed_table(table: NameTable, place: str) -> dict[str, NDArray[Any]]:
    words = sorted({word for wording in table.wordings for word in chain(*wording)})
    numbers = {word: number for number, word in enumerate(words)}
    folded, stems = ([[numbers[word] for word in wording[way]] for wording in table.wordings] for way in (0, 1))
    return {
        f"{place}.words": np.frombuffer(LINE.join(words).encode(), np.uint8),
        f"{place}.folded": np.fromiter(chain.from_iterable(folded), np.int32),
        f"{place}.stems": np.fromiter(chain.from_iterable(stems), np.int32),
        f"{place}.lengths": np.array([len(row) for row in stems], np.int32),
        f"{place}.codes": table.codes.values,
        f"{place}.code_starts": table.codes.starts,
        f"{place}.counts": table.counts,
    }


def _unpacked_table(
    arrays: Mapping[str, NDArray[Any]],
    place: str,
    options: VectorOptions,
    *,
    n_codes: int,
    beside: NameTable | None = None,
) -> NameTable:
    letters = arrays[f"{place}.words"]
    check_shape(f"{place}.words", letters, (letters.size,), "u")
    written = bytes(letters).decode()
    words = written.split(LINE) if written else []
    starts = offsets(arrays[f"{place}.lengths"])
    for way in ("folded", "stems"):
        check_starts(f"{place}.lengths", starts, len(arrays[f"{place}.{way}"]))
        check_numbers(f"{place}.{way}", arrays[f"{place}.{way}"], len(words))
    folded, stems = (_rows(words, Ragged(arrays[f"{place}.{way}"], starts)) for way in ("folded", "stems"))
    wordings: tuple[Wording, ...] = tuple(zip(folded, stems, strict=True))
    codes = arrays[f"{place}.codes"]
    check_starts(f"{place}.code_starts", arrays[f"{place}.code_starts"], len(codes), rows=len(wordings))
    check_numbers(f"{place}.codes", codes, n_codes)
    check_shape(f"{place}.counts", arrays[f"{place}.counts"], (len(codes),), "iu")
    return NameTable(
        wordings=wordings,
        codes=Ragged(codes, arrays[f"{place}.code_starts"]),
        counts=arrays[f"{place}.counts"],
        vectors=fit_vectors(wordings, options, beside=beside.vectors if beside else None),
    )


def _rows(words: Sequence[str], numbers: Ragged) -> list[tuple[str, ...]]:
    flat, starts = [words[number] for number in numbers.values.tolist()], numbers.starts.tolist()
    return [tuple(flat[first:last]) for first, last in pairwise(starts)]
