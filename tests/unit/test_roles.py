"""Roles of notes: what a plan leaves open, shares, and draws of fitted notes that lie within one another."""

import numpy as np
import pytest

from plant.data.builder import build_corpus
from plant.data.corpus import Role
from plant.data.roles import Plan, assign_roles, parse_plan
from plant.errors import InputError
from plant.recipe.schema import Prepare
from tests.made_up import corpus_of, notes_of

N = 200


def roles_of(splits: list[str], plan: Plan, *, seed: int = 1, most: int = 0) -> np.ndarray:
    ids = [f"n{number}" for number in range(len(splits))]
    labelled = np.ones(len(splits), bool)
    drawn = {"most": most} if most else {}
    return assign_roles(splits, labelled, plan, ids=ids, groups=[""] * len(splits), seed=seed, **drawn)


def test_the_first_usual_split_chooses_and_no_other() -> None:
    roles = roles_of(["train", "dev", "valid", "dev1", "test"], Plan())
    assert roles.tolist() == [Role.FIT, Role.CHOOSE, Role.UNUSED, Role.UNUSED, Role.REPORT]


def test_a_tenth_chooses_where_no_split_does() -> None:
    roles = roles_of(["train"] * 1000, Plan())
    assert 60 < np.count_nonzero(roles == Role.CHOOSE) < 140
    assert set(roles.tolist()) == {Role.FIT, Role.CHOOSE}


@pytest.mark.parametrize(("text", "share"), [("0", 0.0), ("0.25", 0.25), ("0.999", 0.999)])
def test_a_share_is_at_least_nothing_and_less_than_all(text: str, share: float) -> None:
    assert parse_plan(choose=text).choose == share


@pytest.mark.parametrize("text", ["1", "1.5", "-0.1"])
def test_a_share_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        parse_plan(choose=text)


def test_no_share_holds_out_nothing() -> None:
    assert set(roles_of(["train"] * N, Plan(choose=0.0)).tolist()) == {Role.FIT}


def test_small_draws_of_fitted_notes_lie_within_larger_ones_and_the_rest_is_unused() -> None:
    draws = [roles_of(["train"] * N, Plan(choose=0.0), most=most) for most in (10, 50, N, N + 7, 0)]
    fitted = [set(np.flatnonzero(roles == Role.FIT).tolist()) for roles in draws]
    assert [len(one) for one in fitted] == [10, 50, N, N, N]
    assert fitted[0] < fitted[1] < fitted[2]
    assert set(draws[0].tolist()) == {Role.FIT, Role.UNUSED}


def test_the_seed_decides_which_notes_are_drawn() -> None:
    one, other = (roles_of(["train"] * N, Plan(choose=0.0), most=20, seed=seed) for seed in (1, 2))
    assert not np.array_equal(one, other)


def test_a_draw_leaves_choosing_and_reported_notes_alone() -> None:
    splits = ["train"] * N + ["test"] * 5
    whole, drawn = (roles_of(splits, Plan(choose=0.2), most=most) for most in (0, 30))
    for role in (Role.CHOOSE, Role.REPORT):
        assert np.array_equal(whole == role, drawn == role)
    assert np.count_nonzero(drawn == Role.FIT) == 30


def test_the_vocabulary_of_a_draw_is_that_of_its_notes() -> None:
    notes = [note for note in notes_of(40) if note.split == "train"]
    drawn = build_corpus(notes, None, Prepare(min_count=1, fitted_notes=3), plan=Plan(choose=0.0))
    kept = [note for note, role in zip(notes, drawn.role.tolist(), strict=True) if role == Role.FIT]
    alone = corpus_of(kept, plan=Plan(choose=0.0))
    assert len(kept) == 3
    assert set(drawn.vocab.tokens) == set(alone.vocab.tokens)
