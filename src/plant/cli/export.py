"""`plant export`: a fitted coder as an ONNX model."""

import argparse

from plant.cli.console import say
from plant.cli.predict import coder_folder
from plant.errors import InputError, quoted_path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("coder", metavar="CODER", help="folder of a coder: RUN/coder")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="an .onnx file: token numbers in, probabilities out"
    )


def run(arguments: argparse.Namespace) -> None:
    from plant.coder import Coder
    from plant.store.artifact import check_apart
    from plant.systems.export import export_onnx

    if not arguments.out.endswith(".onnx"):  # anything else may be somebody's notes
        raise InputError(f"cannot write {quoted_path(arguments.out)!r}: name it .onnx")
    check_apart(arguments.out, [arguments.coder])
    difference = export_onnx(Coder.load(coder_folder(arguments.coder)).fitted, arguments.out)
    say(f"written: {arguments.out}; it differs from the coder by at most {difference:.1e} where it was tried")
