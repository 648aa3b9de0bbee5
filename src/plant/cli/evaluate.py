"""plant evaluate: measures with intervals, beside the prior, as a table, JSON and a report."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plant.errors import InputError
from plant.store.artifact import check_apart

if TYPE_CHECKING:
    from plant.codes.codebook import CodeBook
    from plant.evaluate.report.content import Report
    from plant.evaluate.scores.scored import Scored

REPORTS = ("report.html", "report.md", "report.json")
LARGEST_CUTOFF = 100_000  # measures are summed up to it
FILES_ALONE = "is for files of predictions: a run has its own, leave the option out"


def configure(parser: argparse.ArgumentParser) -> None:
    """A run, or files; what to measure; where to write."""
    parser.add_argument("run_folder", nargs="?", metavar="RUN", help="folder of `plant run`, or its predictions folder")
    add_file_options(parser)
    parser.add_argument("--predictions", metavar="FILE", help="predictions: JSON lines as `plant predict` prints them, "
                        "or TSV `document code [score]`, best first")  # fmt: skip
    parser.add_argument("--name", default="", help="what to call the system (default: the file's name)")
    parser.add_argument("--without", action="append", default=[], metavar="CODE",
                        help="measure also as if this code did not exist; may be repeated")  # fmt: skip
    parser.add_argument("--without-frequent", type=int, action="append", metavar="N",
                        help="measure also without the N most frequent codes (default: 10)")  # fmt: skip
    parser.add_argument("--cutoffs", default="5,8,15", metavar="K,K,...", help="of P@k and its kin (default: 5,8,15)")
    parser.add_argument("--rounds", type=int, default=1000, help="of the bootstrap; 0: no intervals (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (default: 0)")
    parser.add_argument(
        "--report", metavar="FOLDER", help="write report.html, .md and .json there (default: RUN/report)"
    )
    parser.add_argument("--explanations", type=int, nargs="?", const=100, metavar="N",
                        help="measure also every explainer of the RUN's coder, on N reported notes (default: 100): "
                        "against the words that people marked, and by leaving words out")  # fmt: skip
    parser.add_argument("--explainers", default="", metavar="NAME,NAME", help="only these, and `random` to compare")
    parser.add_argument("--corpus", metavar="FOLDER", help="the corpus of the run (default: RUN/corpus)")
    parser.add_argument("--submission", metavar="FILE", help="write the run file of a shared task")
    parser.add_argument("--task", choices=("cantemist", "codiesp"), help="whose (default: cantemist)")
    parser.add_argument("--top", type=int, metavar="N", help="submit the first N codes (default: the accepted ones)")
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """The files that `evaluate` and `compare` read."""
    parser.add_argument(
        "--gold", metavar="FILE", help="notes with `labels` or `codes` (JSON lines), or TSV `document code`"
    )
    parser.add_argument("--train", metavar="FILE", action="append", default=[],
                        help="the training notes, for the prior, bins and unseen codes; may be repeated")  # fmt: skip
    parser.add_argument(
        "--codebook", metavar="FILE", help="codes with descriptions and parents, for chapters and ancestors"
    )
    parser.add_argument("--threshold", type=float, help="accept from this score on (default: what the file accepts)")


def run(arguments: argparse.Namespace) -> None:
    """Evaluate, write what was asked for, print."""
    from plant.cli.console import progress, say
    from plant.evaluate.report.render import json_of, write_report
    from plant.evaluate.scores.files import write_submission
    from plant.steps.evaluate import Settings, evaluate

    _check(arguments)
    _check_written(arguments)
    scored, folder = _scored(arguments)
    if arguments.explanations is not None:
        scored = _with_explanations(scored, arguments)
    settings = Settings(
        cutoffs=_cutoffs(arguments.cutoffs),
        without=arguments.without,
        without_frequent=(10,) if arguments.without_frequent is None else arguments.without_frequent,
        rounds=arguments.rounds,
        seed=arguments.seed,
    )
    with progress() as tell:
        report = evaluate(scored, settings, progress=tell)
    if arguments.submission:
        write_submission(scored, arguments.submission, task=arguments.task or "cantemist", top=arguments.top)
    if folder is not None:
        say(f"report: {write_report(report, folder)}")
    if arguments.json:
        print(json_of(report), end="")
    else:
        _print(report)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse numbers that count nothing, and options that nothing would obey."""
    check_draws(arguments)
    counts = {"--without-frequent": arguments.without_frequent or (), "--top": (arguments.top,)}
    for option, numbers in {**counts, "--explanations": (arguments.explanations,)}.items():
        if any(number is not None and number < 1 for number in numbers):
            raise InputError(f"{option} {min(numbers)}: a number of at least 1")
    if arguments.run_folder:
        refuse_options(arguments, ("train", "codebook", "threshold", "name"), FILES_ALONE)
    elif arguments.explanations is not None:
        raise InputError("--explanations needs a RUN with a coder")
    if not arguments.submission:
        refuse_options(arguments, ("task", "top"), "says what --submission FILE writes, which is not given")
    if arguments.explanations is None:
        refuse_options(arguments, ("explainers", "corpus"), "goes with --explanations, which is not given")


def _check_written(arguments: argparse.Namespace) -> None:
    """Refuse to write a submission or a report over a file that is read."""
    reports = [Path(arguments.report or ".") / name for name in REPORTS]
    for written in filter(None, (arguments.submission, *(reports if arguments.report else ()))):
        check_apart(written, [*files_read(arguments), *filter(None, [arguments.predictions])])


def files_read(arguments: argparse.Namespace) -> list[str]:
    """The files besides predictions that `evaluate` and `compare` were told to read."""
    return [*filter(None, (arguments.gold, arguments.codebook)), *arguments.train]


def check_draws(arguments: argparse.Namespace) -> None:
    """Refuse rounds and seeds below 0."""
    for option in ("rounds", "seed"):
        if (number := getattr(arguments, option)) < 0:
            raise InputError(f"--{option} {number}: a whole number, 0 or more")


def refuse_options(arguments: argparse.Namespace, options: Sequence[str], reason: str) -> None:
    """Refuse those of some options that are given, with the reason why none is obeyed here."""
    for option in options:
        if getattr(arguments, option) not in (None, "", []):
            raise InputError(f"--{option} {reason}")


def scored_from_file(arguments: argparse.Namespace, predictions: str, name: str) -> "Scored":
    """The predictions of one file against the gold file."""
    from plant.evaluate.scores.files import read_gold, read_predictions, scored_from_files
    from plant.evaluate.scores.scored import Frame

    gold = read_gold(arguments.gold)
    train = {document: codes for path in arguments.train for document, codes in read_gold(path).items()}
    return scored_from_files(
        gold,
        read_predictions(predictions),
        train=train or None,
        codebook=_codebook(arguments.codebook, gold) if arguments.codebook else None,
        threshold=arguments.threshold,
        frame=Frame(system=name or Path(predictions).name.split(".")[0]),
    )


def _codebook(path: str, gold: Mapping[str, Sequence[str]]) -> "CodeBook":
    """The code book of a file; its coding system is that of the gold codes."""
    from plant.codes.files import read_codebook
    from plant.codes.icd import guess_system

    return read_codebook(path, system=guess_system(code for codes in gold.values() for code in codes))


def scored_from_run(folder: Path) -> "Scored":
    """The predictions that a run left behind."""
    from plant.evaluate.scores.scored import KIND, load_scored
    from plant.store.artifact import is_artifact

    inner = folder / "predictions"
    if not inner.is_dir() and not is_artifact(folder, KIND):
        raise InputError(f"{folder} holds no predictions: name a run, or give --gold and --predictions")
    return load_scored(inner if inner.is_dir() else folder)


def _scored(arguments: argparse.Namespace) -> tuple["Scored", Path | None]:
    """What to evaluate, and where its report goes."""
    report = Path(arguments.report) if arguments.report else None
    if arguments.run_folder and not (arguments.gold or arguments.predictions):
        folder = Path(arguments.run_folder)
        return scored_from_run(folder), report or folder / "report"
    if arguments.gold and arguments.predictions and not arguments.run_folder:
        return scored_from_file(arguments, arguments.predictions, arguments.name), report
    raise InputError("name a RUN, or give both --gold and --predictions")


def _with_explanations(scored: "Scored", arguments: argparse.Namespace) -> "Scored":
    """The scores with what was measured of each explainer beside them."""
    from dataclasses import replace

    from plant.cli.console import progress
    from plant.steps.explanations import measure_explanations

    names = [name.strip() for name in arguments.explainers.split(",") if name.strip()]
    corpus = Path(arguments.corpus) if arguments.corpus else None
    with progress() as tell:
        figures = measure_explanations(
            Path(arguments.run_folder), notes=arguments.explanations, names=names, corpus=corpus, progress=tell
        )
    return replace(scored, frame=replace(scored.frame, explanations=figures))


def _cutoffs(text: str) -> Sequence[int]:
    try:
        cutoffs = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--cutoffs {text}: numbers between commas, such as 5,8,15") from error
    if min(cutoffs) < 1 or max(cutoffs) > LARGEST_CUTOFF:
        raise InputError(f"--cutoffs {text}: a cutoff is at least 1, and {LARGEST_CUTOFF:,} at most")
    return cutoffs


def _print(report: "Report") -> None:
    from plant.cli.console import print_table
    from plant.evaluate.report.words import facts_of, interval, number

    print_table(("what was measured", ""), list(facts_of(report).items()))
    print()
    rows = [
        (name, number(value.value), interval(value), number(report.prior[name].value) if name in report.prior else "")
        for name, value in report.measures.items()
    ]
    print_table(("measure", "value", "95 % interval", "prior"), rows)
    if explanations := report.frame.explanations:
        print()
        names = list(next(iter(explanations.values())))
        print_table(("explainer", *names), [(name, *row.values()) for name, row in explanations.items()])
    for title, groups in (("training notes", report.bins), ("chapter", report.chapters)):
        if groups:
            print()
            print_table((title, "codes", "gold", "accepted", "P", "R", "F1", "macro-F1", "R@15"), list(_rows(groups)))


def _rows(groups: Sequence[object]) -> Iterator[tuple[object, ...]]:
    fields = ("name", "labels", "gold", "accepted", "precision", "recall", "f1", "macro_f1", "recall_at_15")
    for group in groups:
        yield tuple(getattr(group, field) for field in fields)
