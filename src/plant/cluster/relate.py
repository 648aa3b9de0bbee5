"""Relevance in parts: blocks of labels go to workers, which map one incidence; blocks need no sum."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plant.cluster.pool import Call, Needs, Pool
from plant.relevance.counts import Incidence, count
from plant.relevance.mutual_information import Form, best_tokens
from plant.steps.relate import Best, Find
from plant.store.artifact import open_artifact, save_artifact
from plant.store.temporary import temporary_folder

KIND = "incidence"


def by_workers(pool: Pool, beside: Path) -> Find:
    """Blocks of labels by the workers of a pool; the words of notes lie `beside`, as numbers, as long as they work."""

    def find(found: Incidence, blocks: Sequence[range], form: Form, keep: int) -> Iterator[Best]:
        with temporary_folder(beside) as place:
            path = place.resolve() / KIND
            save_artifact(path, KIND, tensors={name: getattr(found, name) for name in Incidence.__annotations__})
            pool.check_sees(path.parent)
            items, setup = [(block.start, block.stop) for block in blocks], Call(opened_incidence, (str(path),))
            for number, best in pool.each(Call(best_of_block, (form, keep)), items, needs=Needs(setup=setup)):
                yield (blocks[number], *best)

    return find


def opened_incidence(path: str) -> Incidence:
    """A map of the file, of which all workers of a machine share the memory."""
    return Incidence(**{name: np.asarray(array) for name, array in open_artifact(path, KIND).tensors.items()})


def best_of_block(
    form: Form, keep: int, found: Incidence, block: tuple[int, int]
) -> tuple[NDArray[np.integer], NDArray[np.float32]]:
    """What one call gives: the best tokens of some labels, and their scores."""
    tokens, scores = best_tokens(count(found, range(*block)), form=form, keep=keep)
    return np.asarray(tokens), np.asarray(scores)
