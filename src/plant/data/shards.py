"""A corpus in several folders, which share words and codes: no machine needs to hold all of it at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Corpus, Documents, Role, TrainingView, training_view
from plant.data.spool import BLOCK, Spool
from plant.data.store import FLAT, KIND, load_corpus
from plant.errors import InputError, quoted_path
from plant.store.artifact import is_artifact, read_manifest
from plant.store.keeper import digest_of
from plant.store.ragged import offsets
from plant.store.strings import Strings

SHARD = "shard"  # the input of a corpus that tells which part of the whole it is
STARTS = ("token_starts", "label_starts", "evidence_starts", "text_starts")
PLACE = "place"  # of a shard among all, in the recipe of its manifest: its number, and how many there are


@dataclass(frozen=True)
class ShardedCorpus:
    """Corpora of the same words and codes, in the order in which their notes would stand in one."""

    shards: tuple[Corpus, ...]

    @cached_property
    def fitted_labels(self) -> NDArray[np.int64]:
        """The labels that at least one fitted note of any shard has."""
        found = [np.unique(_fitted_labels(shard)) for shard in self.shards]
        return np.unique(np.concatenate(found)).astype(np.int64)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of fitted notes, as a `TrainingView` of the whole has them."""
        return tuple(self.shards[0].codes[label] for label in self.fitted_labels)

    def views(self) -> Iterator[TrainingView]:
        """What fitting stages see of one shard after the other, labels numbered as in a view of the whole."""
        for shard in self.shards:
            yield training_view(shard, self.fitted_labels)


def open_shards(paths: Sequence[Path | str]) -> ShardedCorpus:
    """Open corpora that were prepared together, each once."""
    origins = [dict(read_manifest(path, KIND).inputs) for path in paths]
    names = [origin.pop(SHARD, "") for origin in origins]
    for path, origin, name in zip(paths, origins, names, strict=True):
        if not name or origin != origins[0] or names.count(name) > 1:
            raise InputError(
                f"{quoted_path(path)} is no other shard of the corpus of {quoted_path(paths[0])}: prepare both "
                "together (plant prepare NOTES NOTES --out DIR), or relate their counts (plant relate CORPUS --counts)"
            )
    return ShardedCorpus(tuple(load_corpus(path) for path in paths))


def key_of_shards(paths: Sequence[Path | str]) -> str:
    """The digest that stands for shards, in their order."""
    return digest_of([read_manifest(path, KIND).digest for path in paths])


def shards_in(source: str) -> list[Path]:
    """The folders of a corpus in shards, in the order of their notes; none where a source is no such folder."""
    folder = Path(source)
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in inside if path.is_dir() and is_artifact(path, KIND)]
    places = {path: _place(path) for path in found}
    if not found or None in places.values():
        return []
    ordered = sorted(found, key=lambda path: places[path] or ())
    if [places[path] for path in ordered] != [(number, len(found)) for number in range(len(found))]:
        raise InputError(
            f"{quoted_path(folder)} holds {len(found)} of the shards of a corpus and not the others, or shards of "
            "several: prepare all of them together (plant prepare NOTES NOTES --out DIR)"
        )
    return ordered


def _place(path: Path) -> tuple[int, int] | None:
    """The number of a shard among how many; None where a corpus is whole."""
    place = read_manifest(path, KIND).recipe.get(PLACE)
    if not isinstance(place, list) or len(place) != 2 or not all(isinstance(number, int) for number in place):
        return None
    return place[0], place[1]


def joined_corpus(shards: Sequence[Corpus], workspace: Path) -> Corpus:
    """The corpus that shards are parts of; large arrays lie in files of `workspace`, and never all in memory."""
    return replace(
        shards[0],
        documents=_joined_documents([shard.documents for shard in shards], workspace),
        split=np.concatenate([shard.split for shard in shards]),
        role=np.concatenate([shard.role for shard in shards]),
        groups=_joined_strings([Strings.of(shard.groups) for shard in shards]),
        tokens_lost=sum(shard.tokens_lost for shard in shards),
        notes_cut=sum(shard.notes_cut for shard in shards),
    )


def _joined_documents(parts: Sequence[Documents], workspace: Path) -> Documents:
    joined: dict[str, Any] = {}
    for name in FLAT:
        arrays = [getattr(part, name) for part in parts]
        joined[name] = _joined_starts(arrays) if name in STARTS else _spooled(name, arrays, workspace)
    return replace(parts[0], ids=_joined_strings([Strings.of(part.ids) for part in parts]), **joined)


def _joined_strings(parts: Sequence[Strings]) -> Strings:
    letters = np.concatenate([part.letters for part in parts])
    return Strings(letters, _joined_starts([part.starts for part in parts]))


def _joined_starts(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return offsets(np.concatenate([np.diff(starts) for starts in parts]))


def _spooled(name: str, arrays: Sequence[NDArray[Any]], workspace: Path) -> NDArray[Any]:
    spool = Spool(name, arrays[0].dtype.type, workspace)
    for array in arrays:
        flat = array.reshape(-1)
        for first in range(0, len(flat), BLOCK):
            spool.append(flat[first : first + BLOCK])
    return spool.finish().reshape(-1, *arrays[0].shape[1:])


def _fitted_labels(corpus: Corpus) -> NDArray[np.int32]:
    documents, fitted = corpus.documents, corpus.role == Role.FIT
    return documents.labels[np.repeat(fitted, np.diff(documents.label_starts))]
