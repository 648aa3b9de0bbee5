"""Bad input, generated: files, options, recipes, manifests and arrays, and what one attempt with them leaves behind."""

import contextlib
import csv
import gzip
import io
import json
import os
import shutil
import sys
import tempfile
import traceback
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from plant.cli.main import main
from plant.data.sources import EMBEDDED
from plant.store.artifact import MANIFEST, TENSORS, open_artifact, save_artifact
from plant.types import Note, Span
from tests.source_samples import formats, sample_of

CANARY = "QZCANARYZQ"
ODD = [
    "",
    " ",
    "-",
    "\ud800",
    "\x00",
    "﻿",
    "é",
    "1" * 300,
    "[",
    "{",
    '"',
    "NaN",
    "-1",
    "0",
    "1e999",
    "../x",
    "a" * 5000,
    "\t",
]


@dataclass(frozen=True)
class Attempt:
    """Files, a command over them, and what it is fed with."""

    files: Mapping[str, bytes]
    arguments: tuple[str, ...]
    stdin: bytes = b""
    quiet: bool = True  # what it prints is not the notes themselves


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended, what it printed, and the names that were not there before."""

    code: int
    printed: str
    new: frozenset[str]
    crash: str = ""
    kept: frozenset[str] = frozenset()  # of these, what belongs to steps that came to their end


def faults(attempt: Attempt, outcome: Outcome) -> list[str]:
    """All that must not be, in words."""
    wrong = []
    if outcome.crash:
        wrong.append(f"traceback: {outcome.crash}")
    if outcome.code not in (0, 2):
        wrong.append(f"exit code {outcome.code}")
    quiet = attempt.quiet or outcome.code != 0  # no refusal shows a note, whatever the verb
    if CANARY in outcome.crash or (quiet and CANARY in outcome.printed):
        wrong.append("a word of a note was printed")
    if outcome.code != 0 and outcome.new - outcome.kept:
        wrong.append(f"left behind: {sorted(outcome.new - outcome.kept)}")
    if any(Path(name).name.startswith(".") for name in outcome.new):
        wrong.append(f"half-written: {sorted(outcome.new)}")
    return wrong


def outcome_of(attempt: Attempt, things: Mapping[str, Path]) -> Outcome:
    """Run the command in a folder of its own, in which `things` stand under their names."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name, contextlib.chdir(name):
        for file, content in attempt.files.items():
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_bytes(content)
        for thing, path in things.items():
            if not Path(thing).exists():
                Path(thing).symlink_to(path)
        before = set(_names())
        code, printed, crash = _called(attempt)
        new = frozenset(_names()).difference(before)
        return Outcome(code, printed, new, crash, frozenset(_kept(new)) if attempt.arguments[0] in STEPPED else _NONE)


STEPPED = ("run", "tune", "study")  # verbs of many steps, whose refusal may come when some are done
_NONE: frozenset[str] = frozenset()


def _kept(names: Iterable[str]) -> Iterator[str]:
    """What lies in whole artifacts, and the folders around them."""
    for name in names:
        if Path(name).name == MANIFEST:
            open_artifact(Path(name).parent)
            yield from (str(f"./{path}") for path in Path(name).parent.glob("*"))
            yield from (f"./{folder}" for folder in Path(name).parents[:-1])


def _names() -> Iterator[str]:
    for folder, folders, files in os.walk("."):
        yield from (os.path.join(folder, name) for name in (*folders, *files))


def _called(attempt: Attempt) -> tuple[int, str, str]:
    printed, before = io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(attempt.stdin), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main(list(attempt.arguments))
    except SystemExit as end:
        return int(end.code or 0), printed.getvalue(), ""
    except BaseException:
        return 1, printed.getvalue(), traceback.format_exc(limit=-3)
    finally:
        sys.stdin = before
    raise AssertionError("a command ends the program")


# what stands in cells, lines and options

words = st.sampled_from(["fever", "cough", "pain", CANARY, "no", "wrist", "é", "123"])
texts = st.lists(words, min_size=1, max_size=4).map(lambda parts: f"{parts[0]} {CANARY} {' '.join(parts[1:])} was seen")
codes = st.sampled_from(["I10", "E11.9", "J18.9", "HOSP-77", "I10;E11.9", "I10|E11.9", "", "8500/3", "250.00", " I10 "])
sound_codes = st.sampled_from(["I10", "E11.9", "J18.9", "I10;E11.9", "I10;HOSP-77", "J18.9;E11.9"])
odd = st.sampled_from(ODD)
splits = st.sampled_from(["train", "dev", "test", "", "train ", "fold 1"])
columns = st.sampled_from(
    ["id", "text", "codes", "split", "group", "evidence", "labels", "note", "x", "TEXT", "", CANARY + " a b"]
)
cells = st.one_of(texts, codes, odd, splits, st.integers(-5, 10**6).map(str))


@st.composite
def _table(draw: st.DrawFn) -> bytes:
    """A table that is right, but for one thing at most."""
    rows = [
        (f"n{number}", draw(texts), draw(sound_codes), ("train", "train", "dev", "test")[number % 4])
        for number in range(draw(st.integers(6, 12)))
    ]
    written = io.StringIO(newline="")
    mark = "\t" if draw(st.integers(0, 4)) == 0 else ","
    csv.writer(written, delimiter=mark, lineterminator="\n").writerows([("id", "text", "codes", "split"), *rows])
    return draw(nearly(written.getvalue().encode()))


@st.composite
def nearly(draw: st.DrawFn, content: bytes) -> bytes:
    """Right content as it is, or with one cell, line or byte changed."""
    way = draw(st.sampled_from(["", "cell", "cell", "line", "bytes"]))
    return draw(_spoiled(content, way)) if way else content


@st.composite
def _odd_table(draw: st.DrawFn) -> bytes:
    """A table of which little is right: names may be missing, rows too long, quotes open, bytes foreign."""
    mark = draw(st.sampled_from([",", ",", ",", "\t", ";"]))
    header = draw(st.one_of(st.just(["id", "text", "codes", "split"]), st.lists(columns, min_size=0, max_size=5)))
    rows = draw(st.lists(_rows(len(header)), max_size=6))
    quote = draw(st.booleans())
    lines = [header, *rows] if draw(st.integers(0, 9)) else rows
    text = "\n".join(mark.join(f'"{cell}"' if quote else cell for cell in row) for row in lines)
    return draw(damaged(text.encode("utf-8", "surrogatepass")))


def delimited() -> st.SearchStrategy[bytes]:
    """A table: nearly right, mostly."""
    return st.one_of(_table(), _table(), _odd_table())


@st.composite
def _rows(draw: st.DrawFn, width: int) -> list[str]:
    if width == 4 and draw(st.integers(0, 3)):
        return [f"n{draw(st.integers(0, 8))}", draw(texts), draw(codes), draw(splits)]
    return draw(st.lists(cells, min_size=max(0, width - 1), max_size=width + 1))


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, codes, odd),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(columns, inner, max_size=3)),
    max_leaves=6,
)
marks = st.lists(st.fixed_dictionaries({"start": values, "end": values, "label": st.one_of(codes, texts)}), max_size=2)


@st.composite
def json_lines(draw: st.DrawFn) -> bytes:
    """Lines of JSON that are notes, but for one thing, or nearly notes."""
    if draw(st.integers(0, 2)):
        notes: list[dict[str, Any]] = [
            {
                "id": f"n{n}",
                "text": draw(texts),
                "codes": draw(sound_codes).split(";"),
                "split": "dev" if n % 2 else "train",
            }
            for n in range(draw(st.integers(4, 9)))
        ]
        if draw(st.booleans()):
            notes[draw(st.integers(0, len(notes) - 1))] |= draw(st.dictionaries(columns, values, max_size=2))
        return draw(nearly("\n".join(map(json.dumps, notes)).encode()))
    lines = draw(st.lists(st.one_of(_note(), st.dictionaries(columns, values, max_size=4), values), max_size=5))
    return draw(damaged("\n".join(json.dumps(line) for line in lines).encode()))


@st.composite
def _note(draw: st.DrawFn) -> dict[str, Any]:
    note: dict[str, Any] = {"id": f"n{draw(st.integers(0, 9))}", "text": draw(texts), "codes": [draw(codes)]}
    if draw(st.booleans()):
        note |= draw(st.dictionaries(columns, values, max_size=2))
    if draw(st.integers(0, 4)) == 0:
        note["evidence"] = draw(marks)
    return note


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes, mostly as they are: else cut, with a foreign byte, or with a byte order mark."""
    way = draw(st.integers(0, 11))
    place = draw(st.integers(0, max(0, len(content))))
    if way == 0:
        return content[:place]
    if way == 1:
        return (
            content[:place]
            + draw(st.sampled_from([b"\xff", b"\x00", b'"', b"\n", b"\r", b"\xed\xa0\x80"]))
            + content[place:]
        )
    return b"\xef\xbb\xbf" + content if way == 2 else content


table_options = st.sampled_from(["--id-column", "--text-column", "--codes-column", "--split-column", "--group-column"])
option_values = st.one_of(
    columns, odd.filter(lambda text: "\x00" not in text), texts, st.sampled_from(["id", "text", "-", "codes"])
)


@st.composite
def source_options(draw: st.DrawFn) -> tuple[str, ...]:
    """Options of reading, some of them wrong."""
    found: list[str] = []
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))):
        pair = draw(
            st.one_of(
                st.tuples(table_options, option_values),
                st.tuples(st.just("--system"), st.sampled_from(["icd10cm", "icdo3", "other", "icd11", ""])),
                st.tuples(st.just("--separator"), st.sampled_from([";", "", "|", "\ud800", " "])),
                st.tuples(
                    st.sampled_from(["--fit", "--choose", "--report"]),
                    st.one_of(splits, texts, odd.filter(_is_argument)),
                ),
                st.tuples(
                    st.sampled_from(["--min-code-count", "--max-row"]), st.one_of(odd.filter(_is_argument), texts)
                ),
                st.tuples(st.just("--label-set"), st.sampled_from(["top50", "rare50", "full", "x y"])),
                st.tuples(
                    st.just("--set"),
                    st.sampled_from(["prepare.min_count=1", "prepare.seed=-1", "x=1", "=", "seed=a b c d"]),
                ),
                st.tuples(st.just("--make-splits"), st.sampled_from(["stratified", "random", "none"])),
            )
        )
        found += [f"{pair[0]}={pair[1]}"]
    return tuple(found)


def _is_argument(text: str) -> bool:
    return "\x00" not in text


@st.composite
def reading(draw: st.DrawFn) -> Attempt:
    """A corpus that is read."""
    name, content = draw(
        st.one_of(
            st.tuples(st.sampled_from([*["x.csv"] * 4, "x.tsv", "x.csv.gz", "x.parquet", "x.txt"]), delimited()),
            st.tuples(st.sampled_from(["x.jsonl", "x.ndjson", "x.jsonl.gz"]), json_lines()),
        )
    )
    if name.endswith(".gz") and draw(st.integers(0, 4)):
        content = gzip.compress(content, mtime=0)
    source, name = draw(st.sampled_from([*[(name, name)] * 4, *[("in", f"in/{name}")] * 2, (".", name)]))
    files = {name: content}
    options = list(draw(source_options()))
    for option, file in (("--codebook", "book.csv"), ("--splits", "splits.csv"), ("--codes-file", "codes.txt")):
        if draw(st.integers(0, 9)) == 0:
            files[file] = draw(st.one_of(_book(","), _listed(), delimited()))
            options += [option, file]
    return Attempt(files, ("prepare", source, "--out", "new/out", *options))


@st.composite
def _listed(draw: st.DrawFn) -> bytes:
    """A list of ids with their splits, or of codes."""
    lines = [f"n{number},{draw(splits)}" for number in range(draw(st.integers(1, 12)))]
    if draw(st.booleans()):
        lines = draw(st.lists(codes, min_size=1, max_size=4))
    return draw(nearly("\n".join(lines).encode()))


SPOILED = [name for name in formats() if name not in EMBEDDED]


@cache
def sound(kind: str) -> tuple[str, Mapping[str, bytes]]:
    """A small corpus in one of the formats that are declared: how it is called, and its files."""
    notes = [_sound_note(number) for number in range(101, 109)]
    with tempfile.TemporaryDirectory(prefix="sound-") as name:
        folder = Path(name) / "it"
        folder.mkdir()
        called = Path(sample_of(kind).write(folder, notes)).relative_to(name)
        files = {str(file.relative_to(name)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return str(called), files


def _sound_note(number: int) -> Note:
    """Two neighbours are one patient, who is in one split; codes are spelled alike in ICD-9 and ICD-10."""
    patient, codes = number // 2, ("V45.81", "V10.05", "V58.61")[number % 3 :]
    text = f"{number}: {CANARY} was seen; no fever"
    split, marked = ("train", "test")[patient % 2], (Span(0, 3), Span(5, len(text)))
    return Note(str(number), text, codes, split, str(patient), {codes[0]: marked})


@st.composite
def spoiling(draw: st.DrawFn) -> Attempt:
    """A corpus in any format, right but for one to three files that were changed, swapped, emptied or lost."""
    called, whole = sound(draw(st.sampled_from(SPOILED)))
    files = dict(whole)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(whole)))
        way = draw(st.sampled_from(["cell", "cell", "cell", "bytes", "swap", "empty", "lost", "line", "gzip"]))
        content = files.get(name, b"")
        if way == "lost":
            files.pop(name, None)
        elif way in ("swap", "empty"):
            files[name] = whole[draw(st.sampled_from(sorted(whole)))] if way == "swap" else b""
        elif way == "gzip" or not name.endswith(".gz"):
            files[name] = draw(_spoiled(content, way))
        else:
            files[name] = gzip.compress(draw(_spoiled(_unpacked(content), way)), mtime=0)
    options = draw(st.one_of(st.just(()), source_options()))
    return Attempt(files, ("prepare", called, "--out", "new/out", *options))


def _unpacked(content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):  # it was spoiled before
        return content


@st.composite
def _spoiled(draw: st.DrawFn, content: bytes, way: str) -> bytes:
    lines = content.split(b"\n")
    place = draw(st.integers(0, max(0, len(lines) - 1)))
    if way == "line":
        return b"\n".join([*lines[:place], *lines[place + 1 :]] if draw(st.booleans()) else [*lines, lines[place]])
    if way == "cell":
        for mark in (b"\t", b",", b":", b" "):
            parts = lines[place].split(mark)
            if len(parts) > 1:
                parts[draw(st.integers(0, len(parts) - 1))] = draw(cells).encode("utf-8", "surrogatepass")
                return b"\n".join([*lines[:place], mark.join(parts), *lines[place + 1 :]])
    start = draw(st.integers(0, len(content)))
    return content[:start] + draw(st.binary(max_size=4)) + content[start + draw(st.integers(0, 9)) :]


@st.composite
def fitting(draw: st.DrawFn) -> Attempt:
    """A corpus that is read, fitted and measured; few notes, and few of them right."""
    read = draw(reading())
    options = [word for word in read.arguments[2:] if not word.startswith("--set=prepare.seed")]
    recipe = draw(st.sampled_from(["prior", "prior", "tfidf"]))
    splits = draw(st.sampled_from([[], ["--choose", "0"], ["--fit", "train", "--report", "test"]]))
    return Attempt(read.files, ("run", read.arguments[1], "--recipe", recipe, *options, *splits))


@st.composite
def naming(draw: st.DrawFn) -> Attempt:
    """Names of codes that a fitted coder is to learn."""
    name, content = draw(
        st.one_of(
            st.tuples(st.sampled_from(["x.csv", "x.tsv", "x.txt"]), delimited()),
            st.tuples(st.just("x.tsv"), _book()),
            st.tuples(st.just("x.tsv"), _book()),
            st.tuples(st.just("x.jsonl"), json_lines()),
        )
    )
    coder = draw(st.sampled_from([*["dictionary"] * 4, "tfidf", "plant-bow", "nothing", "corpus"]))
    out = draw(st.sampled_from(["new", "new", "new", "deep/new", coder, name]))
    return Attempt({name: content}, ("codes", "add", coder, name, "--out", out))


@st.composite
def _book(draw: st.DrawFn, mark: str = "\t") -> bytes:
    """A table of codes and names that is nearly right."""
    header = ["code", "description", *draw(st.lists(st.sampled_from(["synonyms", "parent"]), max_size=2, unique=True))]
    name = st.one_of(st.sampled_from(["fever", "dry cough", "C1"]), st.sampled_from(["pain", "", "I10"]), odd, texts)
    own = draw(st.lists(st.sampled_from(["I10", "E11.9", "J18.9", "HOSP-77", "X1", ""]), max_size=5, unique=True))
    rows = [(code, *(draw(name) for _ in header[1:])) for code in own]
    lines = [mark.join(header), *(mark.join(row) for row in rows)]
    return draw(nearly("\n".join(lines).encode("utf-8", "surrogatepass")))


@st.composite
def coding(draw: st.DrawFn) -> Attempt:
    """Texts that are coded, from a file or from standard input."""
    name, content = draw(
        st.one_of(
            st.tuples(st.sampled_from(["x.csv", "x.tsv", "x.txt"]), delimited()),
            st.tuples(st.just("x.jsonl"), json_lines()),
        )
    )
    options = [
        f"{option}={draw(option_values)}" for option in ("--text-column", "--id-column") if draw(st.integers(0, 5)) == 0
    ]
    options += draw(
        st.sampled_from(
            [
                [],
                [],
                [],
                ["--top", "0"],
                ["--top", "-1"],
                ["--cues"],
                ["--format", "csv"],
                ["--format", "brat"],
                ["--format", "fhir"],
                ["--int8"],
                ["--skip-bad", "bad.jsonl"],
                ["--explainer", "contribution"],
                ["--explainer", "x"],
            ]
        )
    )
    out = draw(st.sampled_from(["new.jsonl", "new.jsonl", "new.parquet", name, "deep/new.jsonl", "new.txt"]))
    given = draw(st.booleans())
    coder = draw(st.sampled_from(["tfidf", "tfidf", "prior", "plant-bow", "dictionary", "nothing", "corpus"]))
    evidence = draw(st.sampled_from([[], ["--no-evidence"]]))
    arguments = ("predict", coder, "-" if given else name, "--out", out, *evidence, *options)
    return Attempt({} if given else {name: content}, arguments, content if given else b"")


@st.composite
def _pairs(draw: st.DrawFn, *, scored: bool) -> bytes:
    """Documents and codes between tabs, with scores where they are predictions."""
    rows = [
        [f"n{number}", code, *([str(draw(st.floats(0, 1)))] if scored else [])]
        for number in range(draw(st.integers(2, 6)))
        for code in draw(st.lists(st.sampled_from(["I10", "E11.9", "J18.9"]), min_size=1, unique=True))
    ]
    return draw(nearly("\n".join("\t".join(row) for row in rows).encode()))


@st.composite
def _pairs_in_json(draw: st.DrawFn, *, scored: bool) -> bytes:
    """The same as lines of JSON, as `plant predict` writes them."""
    lines: list[dict[str, Any]] = []
    for number in range(draw(st.integers(2, 6))):
        own = draw(st.lists(st.sampled_from(["I10", "E11.9", "J18.9"]), min_size=1, unique=True))
        ranked = [{"code": code, "probability": draw(st.floats(0, 1)), "accepted": draw(st.booleans())} for code in own]
        lines.append({"id": f"n{number}", **({"codes": ranked} if scored else {"text": CANARY, "codes": own})})
    if draw(st.booleans()):
        lines[draw(st.integers(0, len(lines) - 1))] |= draw(st.dictionaries(columns, values, max_size=1))
    return draw(nearly("\n".join(map(json.dumps, lines)).encode()))


@st.composite
def measuring(draw: st.DrawFn) -> Attempt:
    """Files of gold codes and predictions."""
    files = {}
    for file in ("gold", "found", "train"):
        kind, content = draw(
            st.one_of(
                st.tuples(st.just("tsv"), _pairs(scored=file == "found")),
                st.tuples(st.just("jsonl"), _pairs_in_json(scored=file == "found")),
                st.tuples(st.just("tsv"), delimited()),
                st.tuples(st.just("jsonl"), json_lines()),
            )
        )
        files[f"{file}.{kind}"] = content
    gold, found, train = files
    options = draw(
        st.sampled_from(
            [
                (),
                ("--train", train),
                ("--codebook", train),
                ("--cutoffs", "0"),
                ("--cutoffs", "a b c d"),
                ("--threshold", "nan"),
                ("--report", "new"),
                ("--submission", "new.tsv", "--top", "3"),
            ]
        )
    )
    verb = draw(st.sampled_from(["evaluate", "evaluate", "compare"]))
    if verb == "compare":
        return Attempt(files, ("compare", found, train, "--gold", gold, "--rounds", "3"))
    return Attempt(files, ("evaluate", "--gold", gold, "--predictions", found, "--rounds", "0", *options))


verbs = st.sampled_from(
    [
        "demo",
        "prepare",
        "relate",
        "rank",
        "pretrain",
        "run",
        "predict",
        "explain",
        "evaluate",
        "compare",
        "study",
        "show",
        "codes",
        "parts",
        "recipe",
        "serve",
        "tune",
        "export",
        "completion",
        "x",
    ]
)
flags = st.sampled_from(
    [
        "--out",
        "--recipe",
        "--set",
        "--top",
        "--rounds",
        "--device",
        "--json",
        "--code",
        "--note",
        "--html",
        "--plot",
        "--seed",
        "--report",
        "--gold",
        "--range",
        "--trials",
        "--help",
        "--version",
        "--x",
        "--",
    ]
)


@st.composite
def commanding(draw: st.DrawFn) -> Attempt:
    """Words of a command in no order; nothing that would be fitted is there to be read."""
    word = st.one_of(
        flags, texts, odd.filter(_is_argument), st.sampled_from(["nothing", "x.csv", "tfidf", "add", "show"])
    )
    rest = draw(st.lists(word, max_size=4))
    verb = draw(verbs)
    if verb in ("demo", "explain", "serve"):  # would fit a corpus, print notes as it should, wait for callers
        rest.insert(0, "--no-such-option")
    return Attempt({"x.csv": b"id,text,codes\n"}, (verb, *rest))


THINGS = st.sampled_from(
    ["tfidf", "tfidf", "prior", "dictionary", "corpus", "corpus", "nothing", "x.csv", ".", "tfidf/manifest.json", "-"]
)
LISTED = {  # options of verbs that take a thing, each with a value that may be none of its own
    "show": ["--json", "--plot=new.png", "--plot=new.txt", "--plot=deep/new.svg", "--code", "--top", "--prompt"],
    "explain": ["--note", "--code", "--explainer", "--html=new.html", "--html=x.csv", "--html=deep/new.html"],
    "relate": ["--recipe", "--set"],
    "rank": ["--recipe", "--set", "--language-model=corpus", "--device"],
    "pretrain": ["--text=x.csv", "--text=nothing", "--text-column", "--start=corpus", "--set", "--published=x.csv"],
    "tune": ["--range", "--range=seed=1..2", "--range=seed=2..1", "--trials", "--measure", "--draw", "--set"],
    "export": [],
    "compare": ["--gold=x.csv", "--measure", "--rounds", "--seed", "--json", "--out=new"],
    "study": ["--seeds", "--recipes", "--set", "--fit", "--choose", "--report"],
    "recipe": ["--json", "--changed", "--set"],
    "serve": ["--role", "--role=coder", "--store=x.csv", "--store=new.sqlite", "--export=new.jsonl", "--name"],
}
OUT = ("relate", "rank", "pretrain", "tune", "export", "study")


@st.composite
def handling(draw: st.DrawFn) -> Attempt:
    """Verbs over things that are right but mostly not what the verb takes, with options of its own."""
    verb = draw(st.sampled_from(sorted(LISTED)))
    options = [
        option if "=" in option or option in ("--json", "--changed") else f"{option}={draw(option_values)}"
        for option in draw(st.lists(st.sampled_from(LISTED[verb] or ["--x"]), max_size=3))
    ]
    thing = [draw(THINGS)]
    if verb in ("relate", "rank", "pretrain", "tune", "study") and thing == ["corpus"]:
        thing = ["corpus/manifest.json"]  # a corpus would be worked on for seconds
    if verb in ("tune", "study") and thing in (["x.csv"], ["."]):
        thing = ["nothing"]  # two notes are enough for many fits in processes of their own
    if verb == "study":
        thing = [draw(st.sampled_from(["baselines", "rare", "leak", "x", ""])), "--corpus", *thing]
    elif verb == "recipe":
        thing = ["show", draw(st.one_of(st.sampled_from(["plant", "tfidf", "nothing", "x.csv"]), option_values))]
    elif verb == "serve":
        thing = draw(st.sampled_from([["keys", "add", "me"], ["keys", "add"], ["keys", "list"], ["audit"], ["keys"]]))
    elif verb == "explain":
        thing.append(draw(st.sampled_from(["x.csv", "x.csv", "-", "nothing"])))
    elif verb == "compare":
        thing.append(draw(THINGS))
    if verb in OUT:
        options += ["--out", draw(st.sampled_from(["new", "deep/new", "new.onnx", "x.csv", "tfidf"]))]
    files = {"x.csv": f"id,text,codes\na,worda {CANARY} wordb,I10\nb,wordc {CANARY},E11.9\n".encode()}
    return Attempt(files, (verb, *thing, *options), b"worda and wordb", quiet=verb != "explain")


toml_values = st.one_of(
    st.integers(-3, 10**20).map(str),
    st.floats().map(str),
    texts.map(json.dumps),
    st.sampled_from(
        ["true", "[]", "{}", "[1, 'a']", "''", "1e400", "'plant'", "{name = 'cnn'}", "{name = 3}", "inf", "nan"]
    ),
)
toml_keys = st.sampled_from(
    [
        "seed",
        "extends",
        "system",
        "members",
        "encoder",
        "decoder",
        "loss",
        "fit.epochs",
        "fit.batch",
        "prepare.min_count",
        "prepare.max_tokens",
        "rank.epochs",
        "choose.blend",
        "naming.codes",
        "x",
        "encoder.name",
        "encoder.options",
        "decoder.size",
        "candidates.scorers",
        "tfidf.longest",
    ]
)


right_lines = st.sampled_from(
    [
        ("extends", "'plant-cnn'"),
        ("extends", "'plant'"),
        ("extends", "'tfidf'"),
        ("extends", "'plant-interaction'"),
        ("seed", "7"),
        ("fit.epochs", "3"),
        ("fit.batch", "4"),
        ("prepare.min_count", "2"),
        ("prepare.max_tokens", "900"),
        ("rank.epochs", "1"),
        ("candidates.scorers", "['tfidf']"),
        ("naming.codes", "'official'"),
    ]
)


@st.composite
def cooking(draw: st.DrawFn) -> Attempt:
    """Recipes that are right but for one line or byte at most, and recipes of keys and values of all kinds."""
    if draw(st.integers(0, 2)):
        pairs = draw(st.lists(right_lines, max_size=4, unique_by=lambda pair: pair[0]))
        odd_pairs = draw(st.lists(st.tuples(toml_keys, toml_values), max_size=1))
    else:
        pairs, odd_pairs = [], draw(st.lists(st.tuples(toml_keys, toml_values), max_size=4))
    content = "\n".join(f"{key} = {value}" for key, value in [*pairs, *odd_pairs]).encode()
    options = [f"--set={draw(toml_keys)}={draw(toml_values)}" for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2])))]
    way = draw(st.sampled_from([("recipe", "show", "mine.toml")] * 5 + [("relate", "corpus", "--recipe=mine.toml")]))
    out = ["--out", "new"] if way[0] == "relate" else []
    # a recipe that is shown is shown with its texts, and none of them are notes; a refusal repeats nothing all the same
    return Attempt({"mine.toml": draw(damaged(content))}, (*way, *out, *options), quiet=way[0] == "relate")


# folders that were changed after they were written


def changed_manifest(folder: Path, to: Path, place: tuple[str, ...], value: Any, *, sealed: bool) -> None:
    """A copy of an artifact whose manifest says something else at one place."""
    shutil.copytree(folder, to)
    manifest = json.loads((to / MANIFEST).read_text())
    inner = manifest
    for key in place[:-1]:
        inner = inner.setdefault(key, {}) if isinstance(inner.get(key, {}), dict) else manifest
    inner[place[-1]] = value
    if not sealed:
        manifest.pop("seal", None)
    (to / MANIFEST).write_text(json.dumps(manifest))


def changed_arrays(folder: Path, to: Path, name: str, place: int, value: float, way: str) -> None:
    """A copy of an artifact one of whose arrays was changed by somebody who knows digests and seals."""
    opened = open_artifact(folder)
    tensors = {key: np.array(array) for key, array in opened.tensors.items()}
    array = tensors[name]
    if way == "value" and array.size:
        with np.errstate(all="ignore"):
            array.reshape(-1)[place % array.size] = np.float64(value).astype(array.dtype)
    elif way == "cut":
        tensors[name] = array[: len(array) // 2] if array.ndim else array
    elif way == "type":
        tensors[name] = array.astype(np.float64 if array.dtype.kind in "iu" else np.int64)
    elif way == "shape":
        tensors[name] = array.reshape(1, *array.shape)
    else:
        del tensors[name]
    files = {file: opened.text(file) for file in opened.manifest.files if file != TENSORS}
    manifest = opened.manifest
    save_artifact(to, manifest.kind, tensors=tensors, files=files, recipe=manifest.recipe, facts=manifest.facts)
