"""Prepare: a source of notes becomes a corpus."""

from pathlib import Path

from plant.data.builder import build_corpus
from plant.data.corpus import Corpus
from plant.data.notes import Source, checked
from plant.data.roles import Plan
from plant.recipe.schema import Recipe
from plant.types import Progress, silent


def prepare(
    source: Source,
    recipe: Recipe,
    *,
    plan: Plan | None = None,
    make_splits: str = "random",
    workspace: Path | None = None,
    progress: Progress = silent,
) -> Corpus:
    """The corpus of a source; large arrays lie in files of `workspace`, which must outlive the corpus."""
    return build_corpus(
        checked(source.notes()),
        source.codebook,
        recipe.prepare,
        plan=plan,
        make_splits=make_splits,
        workspace=workspace,
        total=source.total,
        progress=progress,
    )
