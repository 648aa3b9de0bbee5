"""Predictions of eight recipes are what they were when they were last written down, bit for bit on one machine."""

import json
from pathlib import Path

import pytest

from tests.golden.digests import RECIPES, digests, write_corpus

WRITTEN = json.loads((Path(__file__).parent / "digests.json").read_text(encoding="utf-8"))


def test_all_recipes_are_written_down() -> None:
    assert tuple(WRITTEN) == RECIPES


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_change_of_structure_changes_no_prediction(recipe: str, tmp_path: Path) -> None:
    """On another processor, write them down anew before the change: `python tests/golden/digests.py FOLDER`."""
    write_corpus(tmp_path / "notes.jsonl")
    assert digests(recipe, tmp_path / "notes.jsonl", tmp_path / recipe) == WRITTEN[recipe]
