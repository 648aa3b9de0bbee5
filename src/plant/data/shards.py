"""A corpus in several folders, which share words and codes: no machine needs to hold all of it at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Corpus, Role, TrainingView, training_view
from plant.data.store import KIND, load_corpus
from plant.errors import InputError, quoted_path
from plant.store.artifact import read_manifest
from plant.store.keeper import digest_of

SHARD = "shard"  # the input of a corpus that tells which part of the whole it is


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


def _fitted_labels(corpus: Corpus) -> NDArray[np.int32]:
    documents, fitted = corpus.documents, corpus.role == Role.FIT
    return documents.labels[np.repeat(fitted, np.diff(documents.label_starts))]
