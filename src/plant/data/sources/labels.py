"""Label sets: all codes, the fifty most frequent, a given list, or those of enough notes."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from plant.data.notes import Source
from plant.data.sources.lists import read_codes
from plant.data.sources.options import SourceOptions
from plant.errors import InputError
from plant.types import Note

TOP = 50


def asks_for_fewer(options: SourceOptions, minimum: int = 0) -> bool:
    """Whether some codes are to be left out."""
    least = minimum if options.min_code_count is None else options.min_code_count
    return bool(options.codes_file) or options.label_set != "full" or least > 1


def choose_codes(counts: Mapping[str, int], options: SourceOptions, *, minimum: int = 0) -> frozenset[str]:
    """The codes of the label set, given in how many notes each stands; `minimum` holds where the options are silent."""
    if options.codes_file:
        return frozenset(read_codes(Path(options.codes_file)))
    if options.label_set == "rare50":
        raise InputError("the rare-50 label set is a published list: give its codes with --codes-file, one to a line")
    if options.label_set == "top50":
        by_count = sorted(counts, key=lambda code: (-counts[code], code))
        return frozenset(by_count[:TOP])
    least = minimum if options.min_code_count is None else options.min_code_count
    return frozenset(code for code, count in counts.items() if count >= least)


def limit_codes(source: Source, options: SourceOptions) -> Source:
    """The source with the codes of the label set only; a note that loses all its codes is left out.

    Codes are counted in a pass over the notes of all splits, as the published label sets were.
    """
    if not asks_for_fewer(options):
        return source
    counts = Counter(code for note in source.notes() for code in note.codes)
    kept = choose_codes(counts, options)
    if counts and options.codes_file and kept.isdisjoint(counts):
        raise InputError(f"none of the {len(counts):,} codes of the notes is in the {len(kept):,} of --codes-file")
    if counts and kept.isdisjoint(counts):
        raise InputError(
            f"no code is left of {len(counts):,}: the most frequent stands in {max(counts.values()):,} notes; choose a "
            "lower --min-code-count"
        )

    def notes() -> Iterator[Note]:
        for note in source.notes():
            limited = _limited(note, kept)
            if limited.codes or not note.codes:
                yield limited

    return replace(source, notes=notes, total=None)


def _limited(note: Note, kept: Collection[str]) -> Note:
    evidence = {code: spans for code, spans in note.evidence.items() if code in kept}
    return replace(note, codes=tuple(code for code in note.codes if code in kept), evidence=evidence)
