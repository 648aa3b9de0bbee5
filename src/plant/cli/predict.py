"""`plant predict`: code notes with a fitted coder."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plant.cli.console import cut_sentence, progress, say
from plant.cli.options import add_pool_options, chosen_pool, works_apart
from plant.cluster.coding import Coding, Cut, coded, opened_coder
from plant.errors import InputError, unknown
from plant.formats.tables import KINDS, check_kind
from plant.formats.written import SUFFIXES, lines_of, write_brat, write_coded
from plant.store.artifact import atomic_file, check_apart
from plant.store.remote import is_remote

FORMATS = ("jsonl", "parquet", "csv", "brat", "fhir")


def configure(parser: argparse.ArgumentParser) -> None:
    add_coder_options(parser, many=True)
    parser.add_argument("--out", metavar="FILE|DIR",
                        help="a .jsonl or .parquet file (default: standard output); of other formats any file, of "
                        "brat a folder; of several files of notes a folder")  # fmt: skip
    parser.add_argument("--format", default="jsonl", choices=FORMATS,
                        help="jsonl (default); parquet; csv: a row for each code; brat: a folder of texts with marks; "
                        "fhir: a Bundle (R4) of accepted codes in a line for each note")  # fmt: skip
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
    add_pool_options(parser)


def add_coder_options(parser: argparse.ArgumentParser, *, many: bool = False) -> None:
    """The coder, the notes, and how to explain; with `many`, notes may be several files, patterns and folders."""
    parser.add_argument("coder", metavar="CODER", help="folder of a coder: RUN/coder, or its address (s3://, gs://)")
    parser.add_argument("notes", metavar="NOTES", nargs="*" if many else "?", default=["-"] if many else "-",
                        help="jsonl, csv, tsv, parquet (also .gz), a .txt file, or - for standard input"
                        + "; several files, a pattern, a folder or an address (s3://, gs://) are shards: one output "
                        "for each" * many)  # fmt: skip
    parser.add_argument("--text-column", default="", help="column of the texts")
    parser.add_argument("--id-column", default="", help="column of the notes' ids")
    parser.add_argument("--explainer", default="", help="how evidence is found; `plant parts` lists the ways")


def run(arguments: argparse.Namespace) -> None:
    from plant.cluster.predict import is_many

    if arguments.top < 0:
        raise InputError(f"--top {arguments.top}: a number of codes, 0 for the accepted ones alone")
    if arguments.no_evidence and (arguments.cues or arguments.heed_cues):
        raise InputError("--cues and --heed-cues look around evidence: leave --no-evidence out")
    check_explainer(arguments.explainer)
    if is_many(arguments.notes) or works_apart(arguments):
        _run_shards(arguments)
    else:
        _run_one(arguments, *arguments.notes)


def _run_shards(arguments: argparse.Namespace) -> None:
    from plant.cluster.predict import find_shards, predict_shards

    if arguments.format not in SUFFIXES:
        raise InputError(
            f"--format {arguments.format} is a folder of its own: name one file of notes, without --workers"
        )
    if not arguments.out or Path(arguments.out).is_file() or Path(arguments.out).suffix in KINDS:
        raise InputError("notes in shards are written to a folder: name it with --out")
    shards = find_shards(arguments.notes)
    check_apart(arguments.out, [name for name in arguments.notes if Path(name).is_dir() or is_remote(name)])
    if arguments.skip_bad:
        check_apart(arguments.skip_bad, [*shards.values(), arguments.coder])
        _check_skipped(arguments.skip_bad, arguments.out)
    coder = coder_folder(arguments.coder)
    if len(shards) < (arguments.workers or 1):
        said = f"{len(shards):,} of {arguments.workers:,} workers have work, since a file is a shard"
        say(f"{said}: files of 5,000 to 50,000 notes are good ones")
    with chosen_pool(arguments) as pool, progress() as tell:
        done = predict_shards(coder, shards, Path(arguments.out), _coding(arguments), pool, progress=tell)
    there = f" ({done.unchanged:,} were there already)" if done.unchanged else ""
    none = f"; {done.empty:,} of them without notes" if done.empty else ""
    say(f"{done.notes:,} notes of {len(done.lines):,} shards coded{there}: {arguments.out}{none}")
    tell_cut(sum(line.tokens_cut for line in done.lines), sum(line.notes_cut for line in done.lines))
    if arguments.skip_bad:
        bad = [{"shard": line.shard, "note": number, "why": why} for line in done.lines for number, why in line.skipped]
        _write_skipped(bad, Path(arguments.skip_bad))


def _run_one(arguments: argparse.Namespace, notes: str) -> None:
    from plant.data.sources.bare import read_texts

    for written in filter(None, (arguments.out, arguments.skip_bad)):
        check_apart(written, [notes, arguments.coder])
    if arguments.skip_bad and arguments.out:
        _check_skipped(arguments.skip_bad, arguments.out)
    _check_out(arguments.format, arguments.out)
    coding = _coding(arguments)
    coder = opened_coder(coder_folder(arguments.coder), coding)
    skipped: list[dict[str, Any]] = []
    texts = read_texts(
        notes,
        text_column=arguments.text_column,
        id_column=arguments.id_column,
        skipped=(lambda number, why: skipped.append({"note": number, "why": why})) if arguments.skip_bad else None,
    )
    cut = Cut(coder.fitted.recipe.prepare)
    _write(coded(coder, cut.watched(texts), coding), arguments, coder.fitted.codebook.system)
    tell_cut(cut.tokens, cut.notes)
    if arguments.skip_bad:
        _write_skipped(skipped, Path(arguments.skip_bad))


def _coding(arguments: argparse.Namespace) -> Coding:
    return Coding(
        form=arguments.format,
        top=arguments.top,
        evidence=not arguments.no_evidence,
        explainer=arguments.explainer,
        cues=arguments.cues,
        heed_cues=arguments.heed_cues,
        int8=arguments.int8,
        text_column=arguments.text_column,
        id_column=arguments.id_column,
        skip_bad=bool(arguments.skip_bad),
    )


def _write(found: Iterator[Any], arguments: argparse.Namespace, system: str) -> None:
    form, out = arguments.format, arguments.out
    if not out:
        for line in lines_of(found, form, system):
            sys.stdout.write(line)
            sys.stdout.flush()
        return
    with progress() as tell:
        if form == "brat":
            count = write_brat(found, Path(out), tell)
        else:
            with atomic_file(out) as temporary:
                suffix = Path(out).suffix
                count = write_coded(found, temporary, form=form, suffix=suffix, system=system, progress=tell)
    say(f"{count:,} notes coded: {out}")


def _check_out(form: str, out: str | None) -> None:
    """Refuse what cannot be written, before hours of work."""
    if form == "brat" and not out:
        raise InputError("--format brat writes many files: name a folder with --out")
    if form == "parquet" and Path(out or "").suffix != ".parquet":
        raise InputError("--format parquet is written to a file: name it .parquet with --out")
    if out and form == "jsonl":
        check_kind(Path(out).suffix)


def _check_skipped(skipped: str, out: str) -> None:
    """Refuse a list of skipped notes in the place of the predictions, or among them."""
    place = Path(os.path.realpath(skipped))
    if Path(os.path.realpath(out)) in (place, *place.parents):
        raise InputError("--skip-bad would take the place of predictions, or lie among them: name another file")


def _write_skipped(skipped: list[dict[str, Any]], path: Path) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("".join(f"{json.dumps(row)}\n" for row in skipped), encoding="utf-8")
    say(f"{len(skipped):,} notes skipped: {path}")


def tell_cut(tokens: int, notes: int) -> None:
    """Say what was cut, if anything was."""
    if tokens:
        say(cut_sentence(tokens, notes))


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
