"""What MIMIC-III and MIMIC-IV share: discharge summaries by admission, codes by admission, published lists."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType

from plant.codes.codebook import CodeBook
from plant.codes.icd import normalise
from plant.data.notes import Source
from plant.data.sources.books import given_book, official_book
from plant.data.sources.files import MAX_ROW, csv_rows
from plant.data.sources.labels import choose_codes
from plant.data.sources.lists import find_lists, read_splits
from plant.data.sources.options import SourceOptions
from plant.errors import CodeError, InputError, unknown, unknown_column
from plant.types import Note, Progress

DEEPEST = 5  # from the folder that a mirror of physionet.org makes down to its tables
VERSIONS = ("9", "10")
SYSTEMS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "icd9": {"diagnoses": "icd9-diagnosis", "procedures": "icd9-procedure"},
        "icd9-diagnosis": {"diagnoses": "icd9-diagnosis"},
        "icd9-procedure": {"procedures": "icd9-procedure"},
        "icd10": {"diagnoses": "icd10cm", "procedures": "icd10pcs"},
        "icd10cm": {"diagnoses": "icd10cm"},
        "icd10pcs": {"procedures": "icd10pcs"},
    }
)
"""What a coding system takes from which table."""

CODE_LISTS = {"top50": "TOP_50_CODES.csv", "rare50": "RARE_50_CODES.csv"}

Codes = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class NotePart:
    """One discharge summary or addendum; `fault` says why it cannot be used, `order` where it stands in its note."""

    admission: str
    patient: str
    order: tuple[str | int, ...]
    text: str
    fault: str = ""


@dataclass(frozen=True)
class Release:
    """How one of the two databases writes its tables."""

    name: str
    notes: str  # the table of the discharge summaries
    parts: Callable[[Path, int], Iterator[NotePart]]
    code_column: str
    version_column: str  # empty where all codes are ICD-9
    systems: tuple[str, ...]  # the first is the usual one
    minimum: int  # notes that a code needs, as published


def find_table(folder: Path, stem: str, *, deepest: int = DEEPEST) -> Path | None:
    """A table by its name in any case, plain or gzipped, in the folder or below it; the nearest wins."""
    names = {f"{stem}.csv", f"{stem}.csv.gz"}
    for depth in range(1, deepest + 1):
        found = sorted(path for path in folder.glob("/".join("*" * depth)) if path.name.lower() in names)
        if found:
            return found[0]
    return None


def number(cell: str) -> int:
    """A whole number to sort by; nothing else counts."""
    return int(cell) if cell.strip().isdecimal() else 0


def table_rows(path: Path, names: tuple[str, ...], *, limit: int = MAX_ROW) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The named columns of a table, upper and lower case being the same, with the lines that rows begin at."""
    rows = csv_rows(path, limit=limit)
    _, header = next(rows, (0, []))
    folded = [name.strip().lower() for name in header]
    for name in names:
        if name not in folded:
            raise InputError(f"{path}: {unknown_column(name, folded)}")
    pick = itemgetter(*(folded.index(name) for name in names))
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"{path}, line {line}: the row has {len(row)} cells, the first line names {len(header)}")
        yield line, pick(row)


def open_mimic(release: Release, folder: Path, options: SourceOptions, progress: Progress) -> Source:
    """The notes of a database, one for each admission that has a discharge summary and codes."""
    system = _system(release, options)
    notes_table = _needed(folder, release.notes)
    facts: Counter[str] = Counter()
    codes = _codes_by_admission(release, folder, system, options, facts, progress)
    splits = _splits(folder, options)
    parts = _count_parts(release.parts(notes_table, options.max_row), codes, splits, facts, progress)
    kept = _kept_codes(release, folder, options, {admission: codes[admission] for admission in parts})
    codes = {admission: tuple(filter(kept.__contains__, codes[admission])) for admission in parts}
    expected = {admission: count for admission, count in parts.items() if codes[admission]}
    facts["admissions without a code of the label set"] = len(parts) - len(expected)
    left_out = {what: count for what, count in facts.items() if count}
    if not expected:
        reasons = ", ".join(f"{count:,} {what}" for what, count in left_out.items())
        raise InputError(f"{notes_table}: no note is left ({reasons or 'it has no discharge summaries'})")

    def notes() -> Iterator[Note]:
        for admission in gathered(release.parts(notes_table, options.max_row), expected):
            yield _note(admission, codes, splits)

    return Source(
        name=f"{release.name} {system} {options.label_set}",
        notes=notes,
        codebook=given_book(options) or _codebook(release, folder, system, kept),
        total=len(expected),
        facts=MappingProxyType(left_out),
    )


def gathered(parts: Iterable[NotePart], expected: Mapping[str, int]) -> Iterator[list[NotePart]]:
    """The usable parts of each expected admission as soon as all are there; only the unfinished wait in memory."""
    waiting: dict[str, list[NotePart]] = {}
    for part in parts:
        if part.fault or part.admission not in expected:
            continue
        waiting.setdefault(part.admission, []).append(part)
        if len(waiting[part.admission]) == expected[part.admission]:
            yield sorted(waiting.pop(part.admission), key=lambda part: part.order)


def _note(parts: list[NotePart], codes: Codes, splits: Mapping[str, str] | None) -> Note:
    admission = parts[0].admission
    return Note(
        id=admission,
        text="\n".join(dict.fromkeys(part.text for part in parts)),  # some summaries stand there twice
        codes=codes[admission],
        split=splits[admission] if splits else "",
        group=parts[0].patient,
    )


def _system(release: Release, options: SourceOptions) -> str:
    system = options.system or release.systems[0]
    if system not in release.systems:
        raise InputError(f"{release.name}: {unknown('coding system', system, release.systems)}")
    return system


def _needed(folder: Path, stem: str) -> Path:
    path = find_table(folder, stem)
    if path is None:
        raise InputError(f"{folder} has no {stem}.csv or {stem}.csv.gz, nor has a folder in it")
    return path


def _codes_by_admission(
    release: Release, folder: Path, system: str, options: SourceOptions, facts: Counter[str], progress: Progress
) -> Codes:
    version = _version(system)
    by_admission: dict[str, dict[str, None]] = {}
    for kind, part in SYSTEMS[system].items():
        rows = _code_rows(release, _needed(folder, f"{kind}_icd"), options)
        for done, (admission, code, written) in enumerate(rows, start=1):
            if done % 10_000 == 0:
                progress(f"reading {kind}", done, None)
            if written == version and admission and (spelled := _spelled(code, part, facts)):
                by_admission.setdefault(admission, {})[spelled] = None
    return {admission: tuple(codes) for admission, codes in by_admission.items()}


def _code_rows(release: Release, path: Path, options: SourceOptions) -> Iterator[tuple[str, str, str]]:
    """Admission, code and ICD version of each row."""
    names = ("hadm_id", release.code_column, *filter(None, [release.version_column]))
    for line, (admission, code, *versions) in table_rows(path, names, limit=options.max_row):
        version = versions[0].strip() if versions else "9"
        if version not in VERSIONS:
            raise InputError(f"{path}, line {line}: {unknown('ICD version', version[:8], VERSIONS)}")
        yield admission.strip(), code, version


def _spelled(code: str, system: str, facts: Counter[str]) -> str:
    """A code with its dot; empty, and counted, where the cell holds none."""
    if not code.strip():
        facts["rows without a code"] += 1
        return ""
    try:
        return normalise(code, system)
    except CodeError:
        facts["rows whose code is none of its system"] += 1
        return ""


def _splits(folder: Path, options: SourceOptions) -> Mapping[str, str] | None:
    """The published splits, from where the options say or from lists that lie in the folder itself."""
    if options.splits:
        return read_splits(Path(options.splits), options.label_set)
    return read_splits(folder, options.label_set) if find_lists(folder, options.label_set) else None


def _count_parts(
    parts: Iterable[NotePart], codes: Codes, splits: Mapping[str, str] | None, facts: Counter[str], progress: Progress
) -> Counter[str]:
    """How many usable parts each admission has, of those that have codes and a split; the rest is counted by fault."""
    counts: Counter[str] = Counter()
    uncoded: set[str] = set()
    unlisted: set[str] = set()
    for done, part in enumerate(parts, start=1):
        if done % 1_000 == 0:
            progress("finding discharge summaries", done, None)
        if part.fault:
            facts[part.fault] += 1
        elif part.admission not in codes:
            uncoded.add(part.admission)
        elif splits is not None and part.admission not in splits:
            unlisted.add(part.admission)
        else:
            counts[part.admission] += 1
    facts["admissions without codes"] = len(uncoded)
    facts["admissions in no split list"] = len(unlisted)
    return counts


def _kept_codes(release: Release, folder: Path, options: SourceOptions, codes: Codes) -> frozenset[str]:
    listed = find_list(folder, options)
    if listed and not options.codes_file:
        options = replace(options, codes_file=str(listed))
    counts = Counter(code for some in codes.values() for code in some)
    return choose_codes(counts, options, minimum=release.minimum)


def find_list(folder: Path, options: SourceOptions) -> Path | None:
    """The list of the codes of a label set, where it lies in the folder under its published name."""
    path = folder / CODE_LISTS.get(options.label_set, "")
    return path if path.is_file() else None


def _codebook(release: Release, folder: Path, system: str, codes: Iterable[str]) -> CodeBook:
    """The official names and ancestors of the codes; titles of the database go before those of the packaged lists."""
    book = official_book(codes, system)
    wanted = set(book.codes)
    titles = {code: title for code, title in _titles(release, folder, system) if code in wanted and title}
    return replace(book, descriptions={**book.descriptions, **titles})


def _titles(release: Release, folder: Path, system: str) -> Iterator[tuple[str, str]]:
    """The codes of the dictionary tables with their long titles; the tables may be missing."""
    ignored: Counter[str] = Counter()
    version = _version(system)
    for kind, part in SYSTEMS[system].items():
        path = find_table(folder, f"d_icd_{kind}")
        names = (release.code_column, "long_title", *filter(None, [release.version_column]))
        for _, (code, title, *versions) in table_rows(path, names) if path else ():
            if not versions or versions[0].strip() == version:
                yield _spelled(code, part, ignored), title.strip()


def _version(system: str) -> str:
    return "9" if system.startswith("icd9") else "10"
