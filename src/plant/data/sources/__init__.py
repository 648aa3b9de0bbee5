"""Sources: files, folders and published corpora, each as one stream of notes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import get_args

from plant.data.notes import Source, checked
from plant.data.sources.cantemist import is_cantemist, open_cantemist
from plant.data.sources.codiesp import is_codiesp, open_codiesp
from plant.data.sources.mimic3 import is_mimic3, open_mimic3
from plant.data.sources.mimic4 import is_mimic4, open_mimic4
from plant.data.sources.options import LabelSet, SourceOptions
from plant.data.sources.tables import open_folder, open_table, tables_of
from plant.errors import InputError, quoted_path, unknown
from plant.types import Progress, silent

__all__ = ["EMBEDDED", "PUBLISHED", "LabelSet", "Source", "SourceOptions", "checked", "open_source"]


@dataclass(frozen=True)
class Published:
    """A corpus that comes in a folder of known files."""

    recognises: Callable[[Path], bool]
    open: Callable[[Path, SourceOptions, Progress], Source]


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        "mimic3": Published(is_mimic3, open_mimic3),
        "mimic4": Published(is_mimic4, open_mimic4),
        "cantemist": Published(is_cantemist, open_cantemist),
        "codiesp": Published(is_codiesp, open_codiesp),
    }
)


def _demo() -> Source:
    from plant.data.sources.demo import demo_codebook, demo_codes, demo_notes

    return Source("demo", demo_notes, demo_codebook(demo_codes()), total=3000)


EMBEDDED: Mapping[str, Callable[[], Source]] = MappingProxyType({"demo": _demo})
"""Corpora that come with the package."""


def open_source(name: str, *, options: SourceOptions | None = None, progress: Progress = silent) -> Source:
    """The source that a name stands for: `demo`, a table of notes, a folder of tables, or a published corpus.

    `progress` is told of the passes that must be made before the first note can be given.
    """
    options = _checked_options(options or SourceOptions())
    if name in EMBEDDED:
        return EMBEDDED[name]()
    path = Path(name)
    if options.source:
        return _named(path, options, progress)
    if path.is_dir():
        return _open_folder(path, options, progress)
    if not path.exists():
        raise InputError(f"there is no file or folder {quoted_path(name)!r} ('demo' is the embedded corpus)")
    return open_table(path, options)


def _checked_options(options: SourceOptions) -> SourceOptions:
    if options.label_set not in get_args(LabelSet):
        raise InputError(unknown("label set", options.label_set, get_args(LabelSet)))
    if not options.separator:
        raise InputError("the separator of codes is empty: give at least one character, such as ';'")
    return options


def _named(path: Path, options: SourceOptions, progress: Progress) -> Source:
    if options.source not in PUBLISHED:
        raise InputError(unknown("source", options.source, PUBLISHED))
    if not path.is_dir():
        raise InputError(f"{options.source} is read from a folder; {quoted_path(path)!r} is none")
    recognises = PUBLISHED[options.source].recognises
    folder = next((place for place in _places(path) if recognises(place)), path)
    return PUBLISHED[options.source].open(folder, options, progress)


def _open_folder(folder: Path, options: SourceOptions, progress: Progress) -> Source:
    for place in _places(folder):
        for published in PUBLISHED.values():
            if published.recognises(place):
                return published.open(place, options, progress)
    if tables_of(folder):
        return open_folder(folder, options)
    raise InputError(
        f"{folder} holds no notes: expected are tables (jsonl, csv, parquet; one per split) or a published corpus "
        f"({', '.join(PUBLISHED)})"
    )


def _places(folder: Path) -> list[Path]:
    """The folder, or the folders in it, since archives unpack into a folder of their own."""
    return [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
