"""Prediction over shards: one output for each file of notes, each exactly once, whatever was killed on the way.

A shard is whole or absent, and a ledger beside the outputs says what each was made from; what is there and made from
the same coder, options and notes is not made again.
"""

import glob
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.cluster.coding import Coding, Cut, coded, opened_coder
from plant.cluster.pool import Call, Needs, Pool
from plant.data.notes import Skipped
from plant.data.sources.files import open_bytes, stem_of, suffix_of
from plant.data.sources.records import TABLES
from plant.errors import InputError, quoted_path
from plant.formats.written import SUFFIXES, write_coded
from plant.store.artifact import atomic_file, check_apart, file_digest, made_folder, read_manifest
from plant.store.keeper import digest_of
from plant.store.remote import address_of, is_remote, local_file, opened
from plant.types import Note, Progress, silent

if TYPE_CHECKING:
    from plant.coder import Coder

LEDGER = "manifest.jsonl"
EVERY = 10.0  # seconds between copies of the ledger to an object store, where nothing can be added to


@dataclass(frozen=True)
class Line:
    """What the ledger says of one shard."""

    shard: str  # its name, without its kind
    file: str
    notes: int
    made_from: str  # a digest of the coder and the options
    source: str  # digests of the notes, and of what was written
    digest: str
    tokens_cut: int = 0
    notes_cut: int = 0
    skipped: tuple[tuple[int, str], ...] = ()  # numbers of notes that cannot be read, and why


@dataclass(frozen=True)
class Shard:
    """A file of notes and where its predictions go; `listed` is what an earlier run left there."""

    name: str
    notes: str
    out: str
    made_from: str
    listed: Line | None = None


@dataclass(frozen=True)
class Done:
    """The lines of all shards that were asked for, and how many of them were there already."""

    lines: tuple[Line, ...]
    unchanged: int

    @property
    def notes(self) -> int:
        return sum(line.notes for line in self.lines)

    @property
    def empty(self) -> int:
        """How many shards hold no notes, not even bad ones."""
        return sum(not line.notes and not line.skipped for line in self.lines)


def find_shards(names: Iterable[str]) -> dict[str, str]:
    """The files that names, patterns and folders stand for, by the name of their outputs."""
    found: dict[str, str] = {}
    for path in (path for name in names for path in _files_of(name)):
        if (stem := stem_of(Path(path))) in found:
            pair = f"{quoted_path(found[stem])} and {quoted_path(path)}"
            raise InputError(f"{pair} would both be written as {stem!r}: rename one")
        found[stem] = path
    return found


def is_many(names: Sequence[str]) -> bool:
    """Whether names stand for shards rather than for one file, or for standard input."""
    if len(names) != 1 or is_remote(names[0]):
        return True
    return Path(names[0]).is_dir() or (glob.has_magic(names[0]) and not os.path.exists(names[0]))


def _objects_of(name: str) -> list[str]:
    """The objects that an address stands for: itself, those under it, or those whose names are like its end."""
    address = address_of(name)
    folder, _, pattern = address.rpartition("/")
    if glob.has_magic(pattern):
        found = [one for one in opened(folder).names() if fnmatchcase(one, pattern)]
        return _some([f"{folder}/{one}" for one in found], f"no object is named like {quoted_path(address)}")
    if suffix_of(Path(pattern)) in TABLES:
        there = opened(address).is_file()
        return _some([address] if there else [], f"there is no object {quoted_path(address)}")
    found = [one for one in opened(address).names() if suffix_of(Path(one)) in TABLES and one != LEDGER]
    return _some([f"{address}/{one}" for one in found], f"{quoted_path(address)} holds no tables ({', '.join(TABLES)})")


def _files_of(name: str) -> list[str]:
    if is_remote(name):
        return _objects_of(name)
    path = Path(name)
    if name == "-":
        raise InputError("standard input cannot be one of several shards: name files")
    if path.is_dir():
        files = sorted(str(file) for file in path.iterdir() if _is_table(file))
        return _some(files, f"folder {quoted_path(name)} holds no tables ({', '.join(TABLES)})")
    if path.exists() or not glob.has_magic(name):
        return _some([name] if path.is_file() else [], f"there is no file or folder {quoted_path(name)}")
    files = sorted(file for file in glob.glob(name, recursive=True) if Path(file).is_file())
    return _some(files, f"no file is named like {quoted_path(name)}")


def _is_table(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".") and suffix_of(file) in TABLES and file.name != LEDGER


def _some(files: list[str], otherwise: str) -> list[str]:
    if not files:
        raise InputError(otherwise)
    return files


def predict_shards(
    coder: str, shards: Mapping[str, str], out: Path, coding: Coding, pool: Pool, *, progress: Progress = silent
) -> Done:
    """Code every shard into `out`; results do not depend on the pool, nor on what was killed before."""
    made_from = digest_of([read_manifest(coder).digest, asdict(coding)])
    targets = {name: out / f"{name}{SUFFIXES[coding.form]}" for name in shards}
    check_apart(out, [coder])
    read = {os.path.realpath(notes) for notes in shards.values()}
    for target in targets.values():
        if os.path.realpath(target) in read:
            raise InputError(
                f"{quoted_path(target)} is what is read: writing there would destroy it, choose another --out"
            )
    if os.path.realpath(out) in map(os.path.dirname, read):
        raise InputError(
            f"{quoted_path(out)} holds the notes that are read: name another folder for what is made of them"
        )
    with made_folder(out):
        if not is_remote(out):
            pool.check_sees(out)
        ledger = Ledger.opened(out / LEDGER)
        tasks = [
            Shard(name, _seen_by_all(notes), _seen_by_all(targets[name]), made_from, ledger.lines.get(name))
            for name, notes in shards.items()
        ]
        setup = Call(OpenedCoder, (_seen_by_all(coder), coding))
        lines, unchanged = dict[str, Line](), 0
        for _, (line, new) in pool.each(Call(predict_shard), tasks, needs=Needs(setup=setup)):
            unchanged += not new
            lines[line.shard] = line
            ledger.add(line)
            progress("shards coded", len(lines), len(tasks))
        ledger.close()
    return Done(tuple(lines[name] for name in shards), unchanged)


def _seen_by_all(name: Path | str) -> str:
    """A name that means the same to every worker."""
    return address_of(name) if is_remote(name) else str(Path(name).resolve())


@dataclass
class OpenedCoder:
    """What a worker keeps from shard to shard: the coder, opened when a shard first needs it."""

    folder: str
    coding: Coding

    @cached_property
    def coder(self) -> "Coder":
        return opened_coder(self.folder, self.coding)


def predict_shard(worker: OpenedCoder, shard: Shard) -> tuple[Line, bool]:
    """Code one shard, unless that was done; says whether it was done now."""
    with local_file(shard.notes) as notes:
        return _predict_file(worker, shard, notes)


def _predict_file(worker: OpenedCoder, shard: Shard, notes: Path) -> tuple[Line, bool]:
    out, coding, source = Path(shard.out), worker.coding, file_digest(notes)
    if shard.listed is not None and _is_done(shard, shard.listed, source):
        return shard.listed, False
    skipped: list[tuple[int, str]] = []
    texts = _naming(shard, _texts_of(notes, coding, lambda number, why: skipped.append((number, why))))
    fitted = worker.coder.fitted
    cut = Cut(fitted.recipe.prepare)
    with atomic_file(out) as temporary:
        count = write_coded(
            coded(worker.coder, cut.watched(texts), coding),
            temporary,
            form=coding.form,
            suffix=out.suffix,
            system=fitted.codebook.system,
        )
        digest = file_digest(temporary)
    about = (shard.name, out.name, count, shard.made_from, source, digest)
    return Line(*about, tokens_cut=cut.tokens, notes_cut=cut.notes, skipped=tuple(skipped)), True


def _texts_of(notes: Path, coding: Coding, skipped: Skipped) -> Iterator[Note]:
    from plant.data.sources.bare import read_texts

    if suffix_of(notes) != "parquet" and _holds_nothing(notes):
        return iter(())  # programs that write in parts leave such a file for a part without rows
    told = skipped if coding.skip_bad else None
    return read_texts(str(notes), text_column=coding.text_column, id_column=coding.id_column, skipped=told)


def _holds_nothing(file: Path) -> bool:
    with open_bytes(file) as stream:
        return not stream.peek(1)


def _naming(shard: Shard, notes: Iterator[Note]) -> Iterator[Note]:
    """The same notes; an error that names no file says of which of many shards it speaks."""
    try:
        yield from notes
    except InputError as error:
        if Path(shard.notes).name in str(error):
            raise
        raise InputError(f"{quoted_path(shard.notes)}: {error}") from error


def _is_done(shard: Shard, listed: Line, source: str) -> bool:
    """Whether what the ledger says of a shard is what is asked for, and is there."""
    out = Path(shard.out)
    same = (listed.source, listed.made_from, listed.file) == (source, shard.made_from, out.name)
    if not same or not _is_there(out):
        return False
    with local_file(out) as written:
        return file_digest(written) == listed.digest


def _is_there(file: Path) -> bool:
    return opened(file).is_file() if is_remote(file) else file.is_file()


@dataclass
class Ledger:
    """The lines of all shards that are done, by their names: added to as they are, put in order at the end."""

    path: Path
    lines: dict[str, Line] = field(default_factory=dict)
    copied: float = field(default_factory=time.monotonic)  # to an object store

    @classmethod
    def opened(cls, path: Path) -> "Ledger":
        """What an earlier run left; the end of a line that was being written when it was killed is dropped."""
        written: list[str] = []
        if _is_there(path):
            with local_file(path) as file:
                written = file.read_text(encoding="utf-8").splitlines()
        found = [line for line in map(_parsed, written) if line is not None]
        if len(found) < len(written) - 1:
            raise InputError(f"{path} was not written by plant predict: choose another --out")
        ledger = cls(path, {line.shard: line for line in found})
        if len(found) < len(written):
            ledger.close()
        return ledger

    def add(self, line: Line) -> None:
        """Keep a line, on disk before anything else is done."""
        if self.lines.get(line.shard) == line:
            return
        self.lines[line.shard] = line
        if is_remote(self.path):
            if time.monotonic() - self.copied > EVERY:  # a kill costs the lines since: their shards are done again
                self.close()
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_json(line))
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """One line a shard, in the order of their names: the same whoever was first."""
        self.copied = time.monotonic()
        with atomic_file(self.path) as temporary:
            temporary.write_text("".join(_json(self.lines[name]) for name in sorted(self.lines)), encoding="utf-8")


def _json(line: Line) -> str:
    return json.dumps(asdict(line), ensure_ascii=False) + "\n"


def _parsed(text: str) -> Line | None:
    try:
        table: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(table, dict) or set(table) != {one.name for one in fields(Line)}:
        return None
    return Line(**{**table, "skipped": tuple((number, why) for number, why in table["skipped"])})
