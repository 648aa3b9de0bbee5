"""`plant pretrain`: train a language model on the notes' text."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.cli.console import progress, say
from plant.cli.options import add_device_option, add_recipe_options, chosen_device, chosen_recipe
from plant.errors import InputError

if TYPE_CHECKING:
    from plant.pipeline.texts import Job
    from plant.recipe.schema import Recipe
    from plant.train.language_model import Epoch
    from plant.train.masked import Epoch as MaskedEpoch
    from plant.types import Progress


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


def run(arguments: argparse.Namespace) -> None:
    recipe = chosen_recipe(arguments)
    if recipe.encoder.name == "transformer":
        _run_transformer(arguments, recipe)
    else:
        _run_language_model(arguments, recipe)


def _run_transformer(arguments: argparse.Namespace, recipe: "Recipe") -> None:
    from plant.pipeline.transform import transform_once

    if arguments.start or arguments.published:
        raise InputError("a transformer starts from the checkpoint of its recipe: use --set encoder.folder=DIR")
    with progress() as tell:
        made = transform_once(_job(arguments, recipe, _tell_masked_epoch, tell))
    if made.held_out_text:
        say("its text includes that of the held-out notes (masked.held_out_text), as its manifest records")
    say(f"trained on {made.subwords:,} sub-words; use it: --set encoder.folder={arguments.out}")


def _run_language_model(arguments: argparse.Namespace, recipe: "Recipe") -> None:
    from plant.pipeline.pretrain import Start, pretrain_once

    start = Start(arguments.start, tuple(arguments.published) if arguments.published else None)
    with progress() as tell:
        pretrained = pretrain_once(_job(arguments, recipe, _tell_epoch, tell), start=start)
    if pretrained.held_out_text:
        say("its text includes that of the held-out notes (pretrain.held_out_text), as its manifest records")
    say(f"{pretrained.model.direction}, trained on {pretrained.tokens:,} tokens; see: plant show {arguments.out}")


def _job(arguments: argparse.Namespace, recipe: "Recipe", log: Callable[[Any], None], tell: "Progress") -> "Job":
    from plant.pipeline.texts import Job

    return Job(
        Path(arguments.corpus),
        Path(arguments.out),
        recipe,
        texts=arguments.text,
        text_column=arguments.text_column,
        device=chosen_device(arguments),
        told=say,
        log=log,
        progress=tell,
    )


def _tell_masked_epoch(epoch: "MaskedEpoch") -> None:
    dev = "" if epoch.dev_loss is None else f", dev loss {epoch.dev_loss:.3f}"
    say(f"epoch {epoch.number}: loss at hidden sub-words {epoch.loss:.3f}{dev} ({epoch.seconds:.0f} s)")


def _tell_epoch(epoch: "Epoch") -> None:
    dev = "" if epoch.perplexity is None else f", dev perplexity {epoch.perplexity:.1f}, accuracy {epoch.accuracy:.3f}"
    speed = f"{epoch.tokens_per_second:,.0f} tokens/s, {epoch.seconds:.0f} s"
    say(f"epoch {epoch.number}: training loss {epoch.loss:.3f}{dev} ({speed})")
