"""`plant show`: look at any artifact."""

import argparse
import json
import sys
from pathlib import Path

from plant.cli.console import print_table, say


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="folder of an artifact or of a run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--plot", metavar="FILE", help="draw the label-frequency curve into a .png, .svg or .html file")


def run(arguments: argparse.Namespace) -> None:
    from plant.artifact import read_manifest
    from plant.data.store import KIND, load_corpus

    path = Path(arguments.path)
    manifest = read_manifest(path)
    if manifest.kind == KIND:
        _show_corpus(load_corpus(path), arguments)
    else:
        json.dump({"kind": manifest.kind, **manifest.facts}, sys.stdout, indent=2)
        print()


def _show_corpus(corpus, arguments: argparse.Namespace) -> None:  # type: ignore[no-untyped-def]
    from plant.data.summary import summarise

    summary = summarise(corpus)
    if arguments.json:
        print(json.dumps(summary.to_dict()))
    else:
        _print_summary(summary)
    if arguments.plot:
        from plant.cli.plots import draw_label_frequencies

        draw_label_frequencies(corpus, Path(arguments.plot))
        say(f"drawn: {arguments.plot}")


def _print_summary(summary) -> None:  # type: ignore[no-untyped-def]
    header = ["split", "role", "notes", "codes", "codes/note", "tokens", "median", "longest", "unknown", "new codes"]
    rows = [
        [name, s.role, s.notes, s.codes, f"{s.codes_per_note:.1f}", s.tokens, f"{s.median_tokens:.0f}", s.longest,
         f"{100 * s.unknown_share:.1f} %", s.new_codes]
        for name, s in summary.splits.items()
    ]  # fmt: skip
    print_table(header, rows)
    print(
        f"\n{summary.codes:,} codes, {summary.fitted_codes:,} of them in fitted notes, {summary.rare_codes:,} in fewer"
    )
    print(
        f"than 10; {summary.described_codes:,} described. Vocabulary: {summary.vocabulary:,} words of the fitted notes."
    )
    for sentence in summary.health:
        print(f"! {sentence}")
