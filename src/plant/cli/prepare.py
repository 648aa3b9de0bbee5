"""`plant prepare`: read notes and codes into a corpus."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from plant.cli.console import cut_sentence, local_codes_sentence, progress, say
from plant.cli.options import add_plan_options, add_recipe_options, chosen_recipe
from plant.data.sources.options import SourceOptions, option_of

if TYPE_CHECKING:
    from plant.steps.prepare import Made

HELP = {
    "source": "the published corpus that a folder holds: mimic3, mimic4, cantemist, codiesp",
    "id_column": "column of the notes' ids; - numbers them, where ids repeat",
    "text_column": "column of the texts",
    "codes_column": "column of the codes",
    "split_column": "column of the splits",
    "group_column": "column of the patients; a patient's notes stay in one split",
    "separator": "between the codes of one cell (default: ;)",
    "language": "a translation, such as en for the English texts of CodiEsp",
    "system": "coding system: icd9-diagnosis, icd9-procedure, icd10cm, icd10pcs, icdo3",
    "codebook": "table of codes with their descriptions",
    "label_set": "full, top50 or rare50",
    "codes_file": "file with one code per line: the codes of the label set",
    "splits": "folder of published id lists, or table of ids and splits",
    "min_code_count": "leave out codes of fewer notes than this",
    "max_row": "longest row of a table in bytes; more is taken for a damaged file",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source_path", metavar="SOURCE", help="demo, a csv, tsv, jsonl or parquet file, or a folder")
    parser.add_argument("further", metavar="SOURCE", nargs="*",
                        help="more of them: each becomes a shard of one corpus, a folder of DIR")  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the corpus, or of its shards")
    add_source_options(parser)
    add_plan_options(parser)
    add_recipe_options(parser)


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """One option for each field of `SourceOptions`, and how splits are made where the source has none."""
    for field in fields(SourceOptions):
        kind = int if field.name in ("min_code_count", "max_row") else str
        option, usual = option_of(field.name), field.default
        parser.add_argument(option, dest=field.name, type=kind, default=usual, help=HELP[field.name])
    parser.add_argument("--make-splits", choices=["random", "stratified"], default="random",
                        help="how notes without splits are parted, by patient (default: random)")  # fmt: skip


def request_of(arguments: argparse.Namespace):  # type: ignore[no-untyped-def]
    """The source and the plan as the command line gave them."""
    from plant.data.roles import parse_plan
    from plant.steps.prepare import Request

    plan = parse_plan(fit=arguments.fit, choose=arguments.choose, report=arguments.report)
    return Request(arguments.source_path, source_options(arguments), plan, arguments.make_splits)


def source_options(arguments: argparse.Namespace) -> SourceOptions:
    """How the command line says that the source is read."""
    return SourceOptions(**{field.name: getattr(arguments, field.name) for field in fields(SourceOptions)})


def run(arguments: argparse.Namespace) -> None:
    from plant.steps.prepare import prepare_once, prepare_shards_once

    out, request, recipe = Path(arguments.out), request_of(arguments), chosen_recipe(arguments)
    with progress() as tell:
        if arguments.further:
            sources = [arguments.source_path, *arguments.further]
            shards = prepare_shards_once(request, sources, out, recipe, progress=tell)
        else:
            shards = {"": prepare_once(request, out, recipe, progress=tell)}
    for name, made in shards.items():
        _tell(made, out / name)


def _tell(made: "Made", out: Path) -> None:
    facts = made.manifest.facts
    counts = ", ".join(f"{count:,} {name}" for name, count in facts["notes"].items())
    say(f"{'prepared' if made.new else 'already there, unchanged'}: {out}")
    say(f"{counts} notes; {facts['codes']:,} codes; {facts['tokens']:,} tokens; {facts['vocabulary']:,} words")
    for what, count in facts["left_out"].items():
        say(f"left out: {count:,} {what}")
    if sentence := local_codes_sentence(facts):
        say(sentence)
    if facts["tokens_lost"]:
        say(cut_sentence(facts["tokens_lost"], facts.get("notes_cut", 0)))
