"""`plant pretrain`: train a language model on the notes' text."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.cli.console import announce, progress, say
from plant.cli.options import add_device_option, add_recipe_options, chosen_device, chosen_recipe
from plant.cli.together import address_of, check_workers, is_one_of_many, start_together
from plant.errors import InputError, RecipeError

if TYPE_CHECKING:
    from plant.recipe.schema import Recipe
    from plant.steps.step import Step
    from plant.steps.texts import FurtherText
    from plant.train.language_model import LanguageModelEpoch
    from plant.train.masked import MaskedEpoch
    from plant.train.together import Together


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", metavar="CORPUS", help="folder that `plant prepare` wrote")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the language model")
    parser.add_argument("--text", action="append", default=[], metavar="FILE",
                        help="more text: jsonl, csv, parquet (also .gz) or txt; may be repeated")  # fmt: skip
    parser.add_argument("--text-column", default="", help="column of the texts in these files")
    parser.add_argument("--start", default="", metavar="DIR",
                        help="an earlier language model to start from, whatever its words")  # fmt: skip
    parser.add_argument("--published", nargs=2, metavar=("WEIGHTS", "WORDS"),
                        help="start from the published AWD-LSTM: its .pth file and its list of words")  # fmt: skip
    add_device_option(parser)
    add_recipe_options(parser)
    parser.add_argument("--workers", type=int, metavar="N",
                        help="train in so many processes, which share the streams (pretrain.accumulate)")  # fmt: skip
    parser.add_argument("--cluster", default="", metavar="ADDRESS",
                        help="train in processes of a Ray cluster, whose nodes see CORPUS and DIR under the same "
                        "paths: auto (the one that runs here) or host:port")  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    from plant.store.artifact import read_manifest

    recipe = chosen_recipe(arguments)
    read_manifest(arguments.corpus, "corpus")  # what is wrong is told before torch is there
    check_workers(arguments)
    if is_one_of_many():
        _run_ranked(arguments)
    elif recipe.encoder.name == "transformer":
        if arguments.cluster or arguments.workers:
            raise InputError("a transformer is trained further by one process: leave --workers and --cluster away")
        _run_transformer(arguments, recipe)
    elif (arguments.workers or 1) == 1 and not address_of(arguments):
        _run_language_model(arguments, recipe)
    else:
        _run_together(arguments, recipe)


def _run_together(arguments: argparse.Namespace, recipe: "Recipe") -> None:
    from plant.train.together import Ranked, check_size

    most = recipe.pretrain.accumulate
    check_size(Ranked(0, arguments.workers or 1), most, f"--set pretrain.accumulate={arguments.workers}")
    start_together(arguments, _run_ranked, most=most, room=Path(arguments.out).absolute().parent)
    if address_of(arguments):  # what the cluster made is opened here, and told
        _run_language_model(arguments, recipe)


def _run_ranked(arguments: argparse.Namespace) -> None:
    """As one of the processes that torchrun or Ray started: the first keeps the model and tells of it."""
    from plant.train.together import ranked

    with ranked(chosen_device(arguments)) as together:
        _run_language_model(arguments, chosen_recipe(arguments), together)


def _run_transformer(arguments: argparse.Namespace, recipe: "Recipe") -> None:
    from plant.steps.transform import transform_step

    if arguments.start or arguments.published:
        raise InputError("a transformer starts from the checkpoint of its recipe: use --set encoder.folder=DIR")
    if not recipe.masked.epochs:
        raise RecipeError("this recipe does not train its transformer further: use --set masked.epochs=3")
    made = _trained(arguments, recipe, transform_step(_further(arguments), _tell_masked_epoch))
    if made.held_out_text:
        say("its text includes that of the held-out notes (masked.held_out_text), as its manifest records")
    say(f"trained on {made.subwords:,} sub-words; use it: --set encoder.folder={arguments.out}")


def _run_language_model(arguments: argparse.Namespace, recipe: "Recipe", together: "Together | None" = None) -> None:
    from plant.steps.pretrain import Start, pretrain_step

    start = Start(arguments.start, tuple(arguments.published or ()))
    pretrained = _trained(arguments, recipe, pretrain_step(_further(arguments), start, _tell_epoch), together)
    if together is not None and together.rank > 0:
        return
    if pretrained.held_out_text:
        say("its text includes that of the held-out notes (pretrain.held_out_text), as its manifest records")
    say(f"{pretrained.model.direction}, trained on {pretrained.tokens:,} tokens; see: plant show {arguments.out}")


def _trained(arguments: argparse.Namespace, recipe: "Recipe", step: "Step", together: "Together | None" = None) -> Any:
    from plant.steps.single import made_at, opened_corpus

    out, device = Path(arguments.out), chosen_device(arguments)
    given = opened_corpus(arguments.corpus)
    with progress() as tell:
        return made_at(out, step, recipe, given, device=device, progress=tell, notify=announce(out), together=together)


def _further(arguments: argparse.Namespace) -> "FurtherText":
    from plant.steps.texts import FurtherText

    return FurtherText(tuple(arguments.text), arguments.text_column, say)


def _tell_masked_epoch(epoch: "MaskedEpoch") -> None:
    dev = "" if epoch.dev_loss is None else f", dev loss {epoch.dev_loss:.3f}"
    say(f"epoch {epoch.number}: loss at hidden sub-words {epoch.loss:.3f}{dev} ({epoch.seconds:.0f} s)")


def _tell_epoch(epoch: "LanguageModelEpoch") -> None:
    dev = "" if epoch.perplexity is None else f", dev perplexity {epoch.perplexity:.1f}, accuracy {epoch.accuracy:.3f}"
    speed = f"{epoch.tokens_per_second:,.0f} tokens/s, {epoch.seconds:.0f} s"
    say(f"epoch {epoch.number}: training loss {epoch.loss:.3f}{dev} ({speed})")
