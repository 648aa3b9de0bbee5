"""Sets of knobs judged side by side: each worker opens the corpus once."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from plant.cluster.pool import Call, Needs, Pool
from plant.data.corpus import Corpus
from plant.data.store import load_corpus
from plant.steps.tune import JudgeAll, Search, Trial, judged


def by_workers(pool: Pool, corpus: Path, about: Search) -> JudgeAll:
    """Trials by the workers of a pool, which see the folders of the search."""

    def judge(trials: Sequence[Trial]) -> Iterable[tuple[int, float]]:
        needs = Needs(setup=Call(load_corpus, (str(corpus.resolve()),)))
        return pool.each(Call(judged_apart, (os.getcwd(), about)), trials, needs=needs)

    return judge


def judged_apart(folder: str, about: Search, corpus: Corpus, trial: Trial) -> float:
    """What a worker does; `folder` is where relative paths of recipes start."""
    os.chdir(folder)
    return judged(corpus, about, trial)
