"""`plant predict`: code notes with a fitted coder."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plant.cli.console import progress, say
from plant.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    add_coder_options(parser)
    parser.add_argument("--out", metavar="FILE", help="a .jsonl or .parquet file (default: standard output)")
    parser.add_argument("--top", type=int, default=15, help="codes per note besides the accepted ones (default: 15)")
    parser.add_argument("--no-evidence", action="store_true", help="do not look for the words: several times faster")
    parser.add_argument("--int8", action="store_true", help="run in 8-bit integers: faster, nearly the same")


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
    coder = Coder.load(arguments.coder)
    if arguments.int8:
        coder = coder.quantized()
    notes = read_texts(arguments.notes, text_column=arguments.text_column, id_column=arguments.id_column)
    predictions = coder.predict_stream(
        notes, top=arguments.top, evidence=not arguments.no_evidence, explainer=arguments.explainer
    )
    if arguments.out:
        with progress() as tell:
            count = _write((as_json(prediction) for prediction in predictions), Path(arguments.out), tell)
        say(f"{count:,} notes coded: {arguments.out}")
    else:
        for prediction in predictions:
            print(json.dumps(as_json(prediction), ensure_ascii=False))
            sys.stdout.flush()


def as_json(prediction: Any) -> dict[str, Any]:
    """A prediction as its JSON line."""
    return {"id": prediction.id, "codes": [asdict(scored) for scored in prediction.ranked]}


def _write(rows: Iterator[dict[str, Any]], path: Path, tell: Any) -> int:
    from plant.artifact import atomic_file
    from plant.cli.tables import write_rows

    with atomic_file(path) as temporary:
        return write_rows(rows, temporary, suffix=path.suffix, progress=tell)
