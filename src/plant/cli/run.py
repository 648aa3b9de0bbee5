"""`plant run`: from notes to a coder, stage by stage."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plant.cli.console import cut_sentence, languages_sentence, local_codes_sentence, print_table, progress, say
from plant.cli.options import (
    add_device_option,
    add_plan_options,
    add_recipe_options,
    check_source,
    chosen_device,
    chosen_recipe,
)
from plant.cli.prepare import add_source_options, request_of
from plant.cli.together import address_of, check_workers, is_one_of_many, start_together
from plant.cli.tracking import check_tensorboard, mlflow_of, tell_mlflow
from plant.errors import InputError
from plant.recipe.reading import change_recipe, recipe_table
from plant.recipe.schema import Recipe

if TYPE_CHECKING:
    from plant.steps.run import Run
    from plant.train.together import Together

SHARES = ("notes", "labels")
SHOWN = ("MAP", "micro-P", "micro-R", "micro-F1", "P@5", "P@15", "macro-F1 (mean of labels)")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source_path", metavar="SOURCE", help="demo, a file, or a folder, as for `plant prepare`")
    parser.add_argument("--out", required=True, metavar="RUN", help="folder of the run; RUN/coder is the coder")
    parser.add_argument("--shared", default="", metavar="DIR",
                        help="folder for what several runs have in common: corpus, relevance, ranker, word vectors, "
                        "language models (default: RUN)")  # fmt: skip
    parser.add_argument("--replace", action="store_true",
                        help="replace a coder of another recipe that lies in RUN")  # fmt: skip
    add_device_option(parser)
    parser.add_argument("--mlflow", default="", metavar="URI",
                        help="tell MLflow of knobs, figures and epochs")  # fmt: skip
    parser.add_argument("--tensorboard", action="store_true", help="write the epochs for TensorBoard, to RUN/events")
    parser.add_argument("--json", action="store_true", help="print the measures as JSON")
    parser.add_argument("--workers", type=int, metavar="N",
                        help="fit in so many processes: they share the micro-batches of an update (fit.accumulate), or "
                        "the readers of candidates (by itself as many as there are cores)")  # fmt: skip
    parser.add_argument("--share", default="notes", choices=SHARES,
                        help="what processes that train together share: the notes of an update (default), or the "
                        "labels of the decoder, where these are too many for one")  # fmt: skip
    parser.add_argument("--cluster", default="", metavar="ADDRESS",
                        help="train in processes of a Ray cluster, whose nodes see the notes and RUN under the same "
                        "paths: auto (the one that runs here) or host:port")  # fmt: skip
    add_source_options(parser)
    add_plan_options(parser)
    add_recipe_options(parser)


def run(arguments: argparse.Namespace) -> None:
    if is_one_of_many():
        return _run_ranked(arguments)
    check_workers(arguments)
    most = _most_processes(arguments)
    if most:
        start_together(arguments, _run_ranked, most=most, room=Path(arguments.out))
    if not most or address_of(arguments):  # what a cluster made is opened here, and told
        _run(arguments, arguments.workers, None)


def _most_processes(arguments: argparse.Namespace) -> int:
    """How many processes can train this model together; 0 where one is asked for, or others share other work."""
    address = address_of(arguments)
    if arguments.workers is None and not address:
        return 0
    check_source(arguments.source_path)
    from plant.steps.fit import needs_torch

    recipe = chosen_recipe(arguments)
    if not needs_torch(recipe) or recipe.system == "candidates":
        if address:
            raise InputError("only networks are trained on a cluster: leave --cluster away, --workers N stays here")
        return 0
    if arguments.workers == 1 and not address:
        return 0
    from plant.systems.members import member_recipes
    from plant.train.together import Ranked, check_size

    members = member_recipes(recipe)
    if arguments.share == "labels":
        return _most_ranges(members)
    if any(member.system in ("kept", "label-tree") for member in members):
        raise InputError("recipes with a label tree or prompts are fitted by one process: leave --workers away")
    updates = [member.fit.accumulate for member in members if member.system == "classifier"]
    for accumulate in updates:
        check_size(Ranked(0, arguments.workers or 1), accumulate)
    return min(updates, default=1)


def _most_ranges(members: "Sequence[Recipe]") -> int:
    from plant.train.ranges import check_ranges

    for member in members:
        if member.system != "classifier":
            raise InputError(f"system {member.system!r} has no labels to spread over processes: leave --share away")
        check_ranges(member)
    return sys.maxsize


def _run_ranked(arguments: argparse.Namespace) -> None:
    """As one of the processes that torchrun or Ray started: the first does all, the others help to train."""
    from plant.steps.run import assist
    from plant.train.together import ranked

    device = chosen_device(arguments)
    with ranked(device, by_labels=arguments.share == "labels") as together:
        if together.rank == 0:
            return _run(arguments, None, together)
        shared = Path(arguments.shared) if arguments.shared else None
        request, recipe = request_of(arguments), chosen_recipe(arguments)
        assist(request, recipe, Path(arguments.out), shared=shared, device=device, together=together)


def _run(arguments: argparse.Namespace, processes: int | None, together: "Together | None") -> None:
    recipe, out = chosen_recipe(arguments), Path(arguments.out)
    check_source(arguments.source_path)  # what is wrong is told before torch is there
    from plant.steps.fit import needs_torch
    from plant.steps.run import run as run_all

    mlflow = mlflow_of() if arguments.mlflow else None
    if arguments.tensorboard:
        check_tensorboard()
    if not arguments.replace:
        check_same_recipe(out / "coder", recipe)
    device = chosen_device(arguments) if arguments.device or needs_torch(recipe) else "cpu"
    with progress() as tell:
        name = Path(arguments.recipe).stem
        shared = Path(arguments.shared) if arguments.shared else None
        request = request_of(arguments)
        events = out / "events" if arguments.tensorboard else None
        done = run_all(
            request, recipe, out, name=name, shared=shared, events=events, device=device, progress=tell, notify=_notify,
            processes=processes, together=together,
        )  # fmt: skip
    tell_people(done, name, as_json=arguments.json)
    if mlflow is not None:  # last: a server that does not answer costs nothing that was made
        tell_mlflow(mlflow, arguments.mlflow, done, recipe, name)


def tell_people(done: "Run", name: str, *, as_json: bool) -> None:
    """What was noticed on the way, where the coder lies, and its report, written and shown."""
    from plant.evaluate.report.render import json_of, write_report

    if done.languages is not None:
        say(languages_sentence(done.languages.notes, done.languages.names))
    if sentence := local_codes_sentence(done.facts):
        say(sentence)
    if done.tokens_lost:
        say(cut_sentence(done.tokens_lost, done.notes_cut))
    say(f"coder: {done.folder / 'coder'}")
    if done.report is None:
        say("no split is reported; name one with --report to measure this coder")
        return
    if as_json:
        print(json_of(done.report), end="")
    else:
        print_measures(done.report, name)
    say(f"report: {write_report(done.report, done.folder / 'report')}")


def check_same_recipe(folder: Path, recipe: Recipe) -> None:
    """Refuse to replace a coder that another recipe made: fitting may have taken a night."""
    from plant.steps.names import WITHOUT
    from plant.store.artifact import is_artifact, read_manifest
    from plant.store.keeper import digest_of

    if not is_artifact(folder, "coder"):
        return
    made = digest_of(dict(read_manifest(folder, "coder").recipe))
    if made not in (digest_of(recipe_table(one)) for one in (recipe, change_recipe(recipe, [WITHOUT]))):
        raise InputError(f"{folder} was made with another recipe: choose another --out, or say --replace")


def print_measures(report, name: str) -> None:  # type: ignore[no-untyped-def]
    """The headline measures beside the frequency prior's."""
    shown = [measure for measure in SHOWN if measure in report.measures]
    rows = [[measure, _interval(report.measures[measure]), _value(report.prior, measure)] for measure in shown]
    print_table(["measure", f"{name} (95 %)", "frequency prior"], rows)


def _interval(value) -> str:  # type: ignore[no-untyped-def]
    return f"{value.value:.4f} ({value.low:.4f}-{value.high:.4f})" if value.low is not None else f"{value.value:.4f}"


def _value(values, measure: str) -> str:  # type: ignore[no-untyped-def]
    return f"{values[measure].value:.4f}" if measure in values else ""


def _notify(step: str, new: bool) -> None:
    say(f"{step}: {'made' if new else 'already there, unchanged'}")
