"""`plant predict`: code notes with a fitted coder."""

import argparse
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plant.cli.console import cut_sentence, progress, say
from plant.cli.tables import check_kind
from plant.errors import InputError, unknown
from plant.formats.brat import CONFIGURATION, TABLE, Names, marks
from plant.formats.fhir import bundle
from plant.formats.lines import as_json, header, rows
from plant.recipe.schema import Prepare
from plant.store.artifact import atomic_file, atomic_folder, check_apart
from plant.types import Note, Prediction, Progress

FORMATS = ("jsonl", "csv", "brat", "fhir")
Coded = tuple[Note, Prediction]


def configure(parser: argparse.ArgumentParser) -> None:
    add_coder_options(parser)
    parser.add_argument("--out", metavar="FILE", help="a .jsonl or .parquet file (default: standard output); of other "
                        "formats any file, of brat a folder")  # fmt: skip
    parser.add_argument("--format", default="jsonl", choices=FORMATS,
                        help="jsonl (default); csv: a row for each code; brat: a folder of texts with marks; fhir: a "
                        "Bundle (R4) of accepted codes in a line for each note")  # fmt: skip
    parser.add_argument("--skip-bad", metavar="FILE", help="pass over notes that cannot be read, such as empty ones, "
                        "and write which and why into this file")  # fmt: skip
    parser.add_argument("--top", type=int, default=15, help="codes per note besides the accepted ones (default: 15)")
    parser.add_argument("--cues", action="store_true", help="say where evidence is negated, of the family, or supposed")
    parser.add_argument("--heed-cues", action="store_true",
                        help="do not accept a code all of whose evidence is negated or of the family")  # fmt: skip
    parser.add_argument("--no-evidence", action="store_true", help="do not look for the words: several times faster")
    parser.add_argument(
        "--int8",
        action="store_true",
        help="run in 8-bit integers, nearly the same (coders with an awd-lstm encoder only)",
    )


def add_coder_options(parser: argparse.ArgumentParser) -> None:
    """The coder, the notes, and how to explain."""
    parser.add_argument("coder", metavar="CODER", help="folder of a coder: RUN/coder")
    parser.add_argument("notes", metavar="NOTES", nargs="?", default="-",
                        help="jsonl, csv, tsv, parquet (also .gz), a .txt file, or - for standard input")  # fmt: skip
    parser.add_argument("--text-column", default="", help="column of the texts")
    parser.add_argument("--id-column", default="", help="column of the notes' ids")
    parser.add_argument("--explainer", default="", help="how evidence is found; `plant parts` lists the ways")


def run(arguments: argparse.Namespace) -> None:
    from plant.coder import Coder
    from plant.data.sources.bare import read_texts

    if arguments.top < 0:
        raise InputError(f"--top {arguments.top}: a number of codes, 0 for the accepted ones alone")
    if arguments.no_evidence and (arguments.cues or arguments.heed_cues):
        raise InputError("--cues and --heed-cues look around evidence: leave --no-evidence out")
    check_explainer(arguments.explainer)
    for written in filter(None, (arguments.out, arguments.skip_bad)):
        check_apart(written, [arguments.notes, arguments.coder])
    _check_out(arguments.format, arguments.out)
    coder = Coder.load(coder_folder(arguments.coder))
    if arguments.int8:
        coder = coder.quantized()
    skipped: list[tuple[int, str]] = []
    notes = read_texts(
        arguments.notes,
        text_column=arguments.text_column,
        id_column=arguments.id_column,
        skipped=(lambda number, why: skipped.append((number, why))) if arguments.skip_bad else None,
    )
    cut = Cut(coder.fitted.recipe.prepare)
    coded = _coded(coder, cut.watched(notes), arguments)
    lines = _lines(coded, arguments.format, coder.fitted.codebook.system)
    if arguments.format == "brat":
        with progress() as tell:
            say(f"{_write_brat(coded, Path(arguments.out), tell):,} notes coded: {arguments.out}")
    elif arguments.out:
        with progress() as tell:
            count = _write(coded, lines, Path(arguments.out), tell, arguments.format)
        say(f"{count:,} notes coded: {arguments.out}")
    else:
        for line in lines:
            sys.stdout.write(line)
            sys.stdout.flush()
    cut.tell()
    if arguments.skip_bad:
        _write_skipped(skipped, Path(arguments.skip_bad))


def _check_out(form: str, out: str | None) -> None:
    """Refuse what cannot be written, before hours of work."""
    if form == "brat" and not out:
        raise InputError("--format brat writes many files: name a folder with --out")
    if out and form == "jsonl":
        check_kind(Path(out).suffix)


def _coded(coder: Any, notes: Iterable[Note], arguments: argparse.Namespace) -> Iterator[Coded]:
    """Notes with their predictions, with what stands around their evidence where that is asked for."""
    options = {"top": arguments.top, "evidence": not arguments.no_evidence, "explainer": arguments.explainer}
    read: deque[Note] = deque()
    for prediction in coder.predict_stream(_noted(notes, read), **options):
        note = read.popleft()
        if arguments.cues or arguments.heed_cues:
            from plant.explain.around import with_cues

            prediction = with_cues(prediction, note.text, heed=arguments.heed_cues)
        yield note, prediction


def _noted(notes: Iterable[Note], read: "deque[Note]") -> Iterator[Note]:
    for note in notes:
        read.append(note)
        yield note


def _lines(coded: Iterable[Coded], form: str, system: str) -> Iterator[str]:
    """What is written, as it comes: one line for each note, or in a table for each code."""
    if form == "csv":
        yield header()
    for note, prediction in coded:
        if form == "csv":
            yield rows(prediction)
        else:
            content = bundle([(note, prediction)], system=system) if form == "fhir" else as_json(prediction)
            yield json.dumps(content, ensure_ascii=False) + "\n"


def _write_brat(coded: Iterable[Coded], path: Path, tell: Progress) -> int:
    names, count = Names(set()), 0
    with atomic_folder(path) as folder, (folder / TABLE).open("w", encoding="utf-8", newline="") as table:
        (folder / "annotation.conf").write_text(CONFIGURATION, encoding="utf-8")
        table.write(header())
        for count, (note, prediction) in enumerate(coded, start=1):
            name = names.of(note.id, count)
            (folder / f"{name}.txt").write_bytes(note.text.encode("utf-8"))
            (folder / f"{name}.ann").write_bytes(marks(note, prediction).encode("utf-8"))
            table.write(rows(prediction))
            tell("coding notes", count, None)
    return count


def _write_skipped(skipped: list[tuple[int, str]], path: Path) -> None:
    with atomic_file(path) as temporary:
        lines = (json.dumps({"note": number, "why": why}) for number, why in skipped)
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    say(f"{len(skipped):,} notes skipped: {path}")


@dataclass
class Cut:
    """What a coder cuts off the notes that pass by."""

    prepare: Prepare
    tokens: int = 0
    notes: int = 0

    def watched(self, notes: Iterable[Note]) -> Iterator[Note]:
        """The same notes."""
        from plant.data.encode import words_beyond

        for note in notes:
            beyond = words_beyond(note.text, self.prepare)
            self.tokens += beyond
            self.notes += beyond > 0
            yield note

    def tell(self) -> None:
        """Say what was cut, if anything was."""
        if self.tokens:
            say(cut_sentence(self.tokens, self.notes))


def coder_folder(folder: str) -> str:
    """The folder, unless it is that of a run."""
    path = Path(folder)
    if not (path / "manifest.json").is_file() and (path / "coder" / "manifest.json").is_file():
        raise InputError(f"{folder} is a run: its coder is {path / 'coder'}")
    return folder


def check_explainer(name: str) -> None:
    """Refuse a name that is no explainer's, whether it will be used or not."""
    if not name:
        return
    from plant.explain.table import EXPLAINERS
    from plant.systems.system import OF_SYSTEMS

    if name not in (*EXPLAINERS, *OF_SYSTEMS):
        raise InputError(unknown("explainer", name, (*EXPLAINERS, *OF_SYSTEMS)))


def _write(coded: Iterable[Coded], lines: Iterator[str], path: Path, tell: Progress, form: str) -> int:
    from plant.cli.tables import write_rows

    with atomic_file(path) as temporary:
        if form == "jsonl":
            return write_rows((as_json(found) for _, found in coded), temporary, suffix=path.suffix, progress=tell)
        count = 0
        with temporary.open("w", encoding="utf-8", newline="") as file:
            for count, line in enumerate(lines, start=0 if form == "csv" else 1):  # the first line has names
                file.write(line)
                tell("coding notes", count, None)
        return count
