"""Options of parts are checked by name, type and range before anything is built from them."""

import numpy as np
import pytest

from plant.errors import RecipeError
from plant.nn.parts.build import check_parts
from plant.nn.parts.table import DECODERS, ENCODERS, LOSSES
from plant.nn.planting.lambdarank import lambdarank, ndcg_at
from plant.recipe.reading import load_recipe, named_recipes
from plant.registry import Registry
from plant.steps.fit import member_recipes


@pytest.mark.parametrize("name", named_recipes())
def test_the_parts_of_every_packaged_recipe_pass(name: str) -> None:
    assert member_recipes(load_recipe(name))


@pytest.mark.parametrize("registry", [ENCODERS, DECODERS, LOSSES], ids=lambda registry: registry.kind)
def test_the_defaults_of_every_part_pass(registry: Registry[object]) -> None:
    for name in registry.builders:
        defaults = registry.options(name)
        registry.check(name, {option: defaults[option] for option in registry.kinds(name)})


@pytest.mark.parametrize(
    ("recipe", "change", "message"),
    [
        ("plant-demo", "decoder.inattention=foo", "value of decoder.inattention: 'foo'; known: mask, zero"),
        ("plant-demo", "decoder.static_values=foo", "value of decoder.static_values: 'foo'; known: normalised, raw"),
        ("plant-demo", "decoder.scales=foo", "value of decoder.scales: 'foo'; known: fixed, learned"),
        ("interaction", "decoder.form=foo", "value of decoder.form: 'foo'; known: plain, sigmoid, weighted"),
        ("caml", "encoder.activation=foo", "value of encoder.activation: 'foo'; known: relu, tanh"),
        ("plant-demo", "decoder.k=2.5", "decoder.k must be int, not 2.5"),
        ("plant-demo", 'decoder.k="5"', "decoder.k must be int, not '5'"),
        ("plant-demo", 'decoder.learned="no"', "decoder.learned must be bool, not 'no'"),
        ("plant-demo", "decoder.k=true", "decoder.k must be int, not True"),
        ("caml", "encoder.kernels=3", "encoder.kernels must be a list of int, not 3"),
        ("caml", "encoder.kernels=[0]", "encoder.kernels must be at least 1, not 0"),
        ("caml", "encoder.kernels=[]", r"encoder.kernels must be a list that is not empty, not \[\]"),
        ("caml", "encoder.dropout=2", "encoder.dropout must be at least 0 and below 1, not 2"),
        ("plant-demo", "decoder.k=0", "decoder.k must be at least 1, not 0"),
        ("laat", "decoder.key_size=-5", "decoder.key_size must be at least 0, not -5"),
        ("effective-can", "loss.gamma=-1", "loss.gamma must be at least 0, not -1"),
        ("interaction", "decoder.slack=-3", "decoder.slack must be at least 0, not -3"),
        ("plant-demo", "decoder.frequencies=3", "unknown option of decoder 'planted': 'frequencies'"),
        ("plant-demo", 'decoder.interaction={jion="max"}', "'jion'; known: .*join.* Did you mean 'join'"),
        ("plant-demo", "decoder.interaction.slack=-1", "decoder.interaction.slack must be at least 0"),
        ("plant-demo", "decoder.interaction.join=foo", "value of decoder.interaction.join: 'foo'; known: max, sum"),
        ("plant-demo", "decoder.interaction=3", "decoder.interaction must be a table of options, not 3"),
        ("interaction", "decoder.interaction={}", "unknown option of decoder 'interaction': 'interaction'"),
        ("plant-demo", "encoder.name=foo", "unknown encoder 'foo'"),
    ],
)
def test_a_wrong_option_names_its_section_its_value_and_what_is_allowed(recipe: str, change: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        member_recipes(load_recipe(recipe, [change]))


@pytest.mark.parametrize(
    ("recipe", "change"),
    [
        ("caml", "encoder.dropout=0"),
        ("laat", "decoder.key_size=0"),
        ("plant-full", "encoder.dropout=1.5"),
        ("plant-demo", "decoder.interaction={}"),
        ("plant-demo", 'decoder={name="joined", base={name="planted", k=3}, interaction={slack=1}, join="sum"}'),
    ],
)
def test_what_is_right_passes(recipe: str, change: str) -> None:
    check_parts(load_recipe(recipe, [change]))


def test_a_change_reaches_the_members_that_have_what_it_is_for() -> None:
    changes = ["encoder.dropout=0.25", "decoder.k=3", "decoder.slack=1", "fit.epochs=7"]
    planted, matching = member_recipes(load_recipe("plant-interaction", changes))
    assert (planted.encoder.options["dropout"], matching.encoder.options) == (0.25, {})
    assert (planted.decoder.options["k"], matching.decoder.options.get("k")) == (3, None)
    assert (planted.decoder.options.get("slack"), matching.decoder.options["slack"]) == (None, 1)
    assert (planted.fit.epochs, matching.fit.epochs) == (7, 7)


def test_members_without_parts_do_without_changes_of_parts() -> None:
    recipe = load_recipe("plant-interaction", ['members=["tfidf", "caml"]', "encoder.filters=9"])
    assert member_recipes(recipe)[1].encoder.options["filters"] == 9


def test_a_change_that_no_member_takes_names_them() -> None:
    with pytest.raises(RecipeError, match=r"members \(plant-cnn, interaction\), none of which has 'decoder.kk'"):
        member_recipes(load_recipe("plant-interaction", ["decoder.kk=3"]))


@pytest.mark.parametrize("k", [0, -1])
def test_ranking_at_no_place_is_refused_before_the_kernel(k: int) -> None:
    scores, tokens, gains = np.ones((1, 3), np.float32), np.zeros((1, 1), np.int64), np.ones((1, 1))
    with pytest.raises(RecipeError, match="k of at least 1"):
        lambdarank(scores, tokens, gains, k=k)
    with pytest.raises(RecipeError, match="k of at least 1"):
        ndcg_at(scores, tokens, gains, k=k)
