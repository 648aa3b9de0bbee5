"""The `plant` command: picks a verb, runs it, turns errors into one clear line."""

import argparse
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

import plant
from plant.cli.console import say
from plant.errors import InputError, PlantError, lacks_memory, quoted, without_texts
from plant.kernels import are_kept

VERBS = {
    "demo": "fit the embedded corpus and show explained codes",
    "prepare": "read notes and codes into a corpus",
    "relate": "find the tokens that say most about each code",
    "rank": "train the ranker of tokens per code",
    "pretrain": "train a language model on the notes' text",
    "run": "all steps: from notes to a coder",
    "predict": "code notes with a fitted coder",
    "explain": "show the words that speak for each code",
    "serve": "an API and a desk for people who code, over a fitted coder",
    "evaluate": "measure a run, or predictions in files, against the gold codes",
    "compare": "compare systems, with significance",
    "study": "fit many recipes on the same splits, one table",
    "tune": "look for better knobs of a recipe",
    "show": "look at a corpus, a relevance, a language model, a run",
    "codes": "add codes by their names to a fitted coder",
    "export": "write a fitted coder as an ONNX model",
    "parts": "list recipes, encoders, decoders, losses and explainers",
    "recipe": "show every knob of a recipe and where its value comes from",
    "completion": "print a script that completes commands in a shell",
}
COMPILED = (
    "demo", "prepare", "relate", "rank", "pretrain", "run", "predict", "explain", "study", "tune", "codes", "serve"
)  # fmt: skip
READING = ("predict", "explain", "serve")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""For numpy where notes are read: the products of one note are too small to be shared, and a second thread spent as
much as the first one, waiting."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one verb: exit code 0 when done, 2 when the user can mend it, 1 for a bug (with its traceback)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        carry_out(words)
    except PlantError as error:
        _fail(without_texts(str(error), words))
    except KeyboardInterrupt:
        _fail("interrupted; nothing half-written is left behind, run the same command to go on")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough
    except OSError as error:
        _fail(without_texts(_disk_sentence(error), words))
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        _fail("there is not enough memory for this: choose smaller sizes in the recipe, or another machine")
    sys.exit(0)


def carry_out(words: Sequence[str]) -> None:
    """Run one verb; what goes wrong is raised, and being told to end is as Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupted)
    # before torch starts its threads: on a machine with other work, threads that spin while they wait cost 20 times
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if words and words[0] in READING and "numpy" not in sys.modules:  # which reads it once, when it is imported
        os.environ.update({**ONE_THREAD, **os.environ})
    _check_streams()
    _run(list(words))
    sys.stdout.flush()


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in the one line in which all errors are said."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> argparse.Namespace:  # type: ignore[override]
        """As ever, but what is not understood is named without its value, which may be a note."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            told = [word.partition("=")[0] if word.startswith("-") else quoted(word) for word in rest]
            self.error(f"unrecognized arguments: {' '.join(told)}")
        return parsed

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise InputError(message)


def _check_streams() -> None:
    """Refuse to work where what is printed goes nowhere, and let letters pass that a machine's language lacks."""
    if sys.stdout is None or sys.stdout.closed:
        raise InputError("standard output is closed: send it to a file, or to /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="replace")
        else:  # data, whose readers expect UTF-8 whatever this machine's language is
            sys.stdout.reconfigure(encoding="utf-8")


def _run(arguments: list[str]) -> None:
    verb = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser = _Parser(prog="plant", description=str(plant.__doc__).partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"plant {plant.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, help_text in VERBS.items():
        verb_parser = verbs.add_parser(name, help=help_text, description=help_text)
        if name == verb:  # only the verb that runs is imported: `plant --help` stays fast
            module = importlib.import_module(f"plant.cli.{name}")
            module.configure(verb_parser)
            verb_parser.set_defaults(run=module.run, typed=arguments)
    parsed = parser.parse_args(arguments)
    if verb in COMPILED and not are_kept(os.environ):
        say("compiling kernels: once on this machine, up to a minute")
    parsed.run(parsed)


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _disk_sentence(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"the disk is full: {error.filename or 'the output'} could not be written; free some space"
    if error.errno in (errno.EEXIST, errno.ENOTDIR) and error.filename:
        return f"{error.filename}: a file stands where a folder belongs; choose another place"
    return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)


def _fail(sentence: str) -> NoReturn:
    if sys.stderr is not None:
        print(f"plant: {sentence}".encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
    sys.exit(2)
