"""What people see while they wait, on stderr; data goes to stdout."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from plant.types import Progress


@dataclass
class _Line:
    """The progress line of one terminal: the only thing here that changes."""

    stream: TextIO
    interval: float
    what: str = ""
    begun: float = field(default_factory=time.monotonic)
    written: float = 0.0
    first: int = 0  # what was done when this began: a resumed run does not count it as its own speed

    def tell(self, what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if what != self.what:
            self.end()
            self.what, self.begun, self.written, self.first = what, now, 0.0, done
        if now - self.written >= self.interval or done == total:
            self.written = now
            end = "" if self.stream.isatty() else "\n"
            start = "\r\x1b[K" if self.stream.isatty() else ""
            self.stream.write(start + _progress_text(what, done, total, now - self.begun, self.first) + end)
            self.stream.flush()

    def end(self) -> None:
        if self.what and self.stream.isatty():
            self.stream.write("\n")
        self.what = ""


@contextmanager
def progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """A `Progress` that keeps one line of the terminal up to date; in a log file, a line every ten seconds."""
    stream = stream or sys.stderr
    line = _Line(stream, interval=0.2 if stream.isatty() else 10.0)
    try:
        yield line.tell
    finally:
        line.end()


def say(text: str) -> None:
    """A sentence for the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


def announce(out: Path) -> Callable[[str, bool], None]:
    """Says of the one thing that a verb makes whether it was made just now."""
    return lambda name, new: say(f"{'written' if new else 'already there, unchanged'}: {out}")


def cut_sentence(tokens: int, notes: int) -> str:
    """What a limit on length cost; corpora of earlier versions do not know how many notes it cut."""
    return f"{tokens:,} tokens{f' of {notes:,} notes' if notes else ''} were cut by prepare.max_tokens"


def local_codes_sentence(facts: Mapping[str, Any]) -> str:
    """What was done with codes that are none of the corpus's coding system; empty where there are none."""
    if not facts.get("local_codes"):
        return ""
    return (
        f"{facts['local_codes']:,} of {facts['codes']:,} codes are not written as {facts['system']} writes codes: "
        "kept as they stand, without official names (give theirs with --codebook)"
    )


def languages_sentence(notes: str, names: str) -> str:
    """What names of codes in another language than the notes are worth."""
    return (
        f"the notes are {notes}, the names of their codes {names}: they gain little, and choosing notes (--choose 0.1) "
        f"decide whether they are believed; give names in {notes} with --codebook, or take a recipe that can do "
        "without, such as plant-cnn"
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], *, stream: TextIO | None = None) -> None:
    """A table with aligned columns, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(header), *cells]) for column in range(len(header))]
    right = [all(_is_number(row[column]) for row in rows) for column in range(len(header))]
    for row in [list(header), ["-" * width for width in widths], *cells]:
        line = (cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True))
        print("  ".join(line).rstrip(), file=stream or sys.stdout)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _progress_text(what: str, done: int, total: int | None, seconds: float, first: int) -> str:
    if not total:
        return f"{what}: {done:,} ({seconds:.0f} s)"
    if done >= total or done <= first or not seconds:
        return f"{what}: {done:,} of {total:,} ({100 * done / total:.0f} %, {seconds:.0f} s)"
    speed = (done - first) / seconds
    left = (total - done) / speed
    return f"{what}: {done:,} of {total:,} ({100 * done / total:.0f} %, {speed:,.1f}/s, {left:.0f} s left)"
