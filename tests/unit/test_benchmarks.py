"""Every program of the benchmarks starts: its imports are there, its help is printed, and it asks for no argument."""

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = sorted((Path(__file__).parents[2] / "benchmarks").glob("[a-z]*.py"))


class Started(BaseException):
    """A program has read its arguments; no handler of errors in it stops this."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_starts_without_arguments(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: argparse.ArgumentParser, arguments: Any = None) -> Any:
        assert "usage" in parser.format_help()
        parse(parser, [])  # `make bench` calls each program without a word
        raise Started

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.syspath_prepend(program.parent)  # as Python does for a program
    with pytest.raises(Started):
        runpy.run_path(str(program), run_name="__main__")
