"""`plant show`: look at any artifact."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plant.cli.console import print_table, say
from plant.cli.show_language_model import add_language_model_options, show_language_model
from plant.cli.show_relevance import add_relevance_options, show_relevance
from plant.errors import InputError

if TYPE_CHECKING:
    from plant.data.corpus import Corpus
    from plant.data.summary import CorpusSummary

PARTS = ("corpus", "relevance", "ranker", "language-model", "language-model-forward", "language-model-backward",
         "coder", "predictions")  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="*", metavar="[relevance | language-model | ...] PATH",
                        help="folder of an artifact or of a run, and which part of a run to show")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--plot", metavar="FILE", help="draw it into a .png, .svg or .html file")
    add_relevance_options(parser)
    add_language_model_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from plant.store.artifact import read_manifest

    path = _folder(arguments.what, meant=_meant(arguments))
    manifest = read_manifest(path)
    arguments.path = str(path)
    if manifest.kind == "corpus":
        from plant.data.store import load_corpus

        _show_corpus(load_corpus(path), arguments)
    elif manifest.kind in ("relevance", "ranker"):
        show_relevance(arguments)
    elif manifest.kind == "language-model":
        show_language_model(
            path, prompt=arguments.prompt, words=arguments.words, temperature=arguments.temperature,
            samples=arguments.samples, as_json=arguments.json,
        )  # fmt: skip
    else:
        print(json.dumps({"kind": manifest.kind, **manifest.facts}, indent=2, ensure_ascii=False))


def _meant(arguments: argparse.Namespace) -> str:
    """The part of a run that the options speak of."""
    if arguments.code:
        return "relevance"
    return "language-model" if arguments.prompt else "corpus"


def _folder(words: Sequence[str], *, meant: str) -> Path:
    """The artifact that `[part] path` means; a run stands for the part that is meant where it names none."""
    if not words or len(words) > 2 or (len(words) == 2 and words[0] not in PARTS):
        raise InputError(f"plant show takes a folder, or one of {', '.join(PARTS)} and a folder")
    path, part = Path(words[-1]), words[0] if len(words) == 2 else ""
    if path.is_dir() and not (path / "manifest.json").is_file():
        inner = part or meant
        folders = (path / name for name in (inner, f"{inner}-forward", f"{inner}-backward"))
        found = next((folder for folder in folders if (folder / "manifest.json").is_file()), None)
        if found is None:
            raise InputError(f"{path} has no {inner}; it has {', '.join(_parts(path)) or 'no part of a run'}")
        return found
    return path


def _parts(run: Path) -> list[str]:
    return [name for name in PARTS if (run / name / "manifest.json").is_file()]


def _show_corpus(corpus: "Corpus", arguments: argparse.Namespace) -> None:
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


def _print_summary(summary: "CorpusSummary") -> None:
    header = ["split", "role", "notes", "codes", "codes/note", "tokens", "median", "longest", "unknown", "new codes"]
    rows = [
        [name, s.role, s.notes, s.codes, f"{s.codes_per_note:.1f}", s.tokens, f"{s.median_tokens:.0f}", s.longest,
         f"{100 * s.unknown_share:.1f} %", s.new_codes]
        for name, s in summary.splits.items()
    ]  # fmt: skip
    print_table(header, rows)
    print(
        f"\n{summary.codes:,} codes; {summary.fitted_codes:,} in fitted notes, {summary.rare_codes:,} in fewer than 10"
    )
    print(
        f"{summary.described_codes:,} codes described; vocabulary of {summary.vocabulary:,} words of the fitted notes"
    )
    for sentence in summary.health:
        print(f"! {sentence}")
