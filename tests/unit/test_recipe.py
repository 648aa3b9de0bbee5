"""Recipes are strict: what is not known is an error that names what is."""

from pathlib import Path

import pytest

from plant.errors import RecipeError
from plant.recipe import Recipe, load_recipe, named_recipes, recipe_from, recipe_table


@pytest.mark.parametrize("name", named_recipes())
def test_every_packaged_recipe_loads_and_survives_a_round_trip(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe_from(recipe_table(recipe), where="manifest") == recipe


def test_an_empty_recipe_is_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("")
    assert load_recipe(str(tmp_path / "mine.toml")) == Recipe()


def test_overrides_change_one_key() -> None:
    recipe = load_recipe("plant", ["prepare.min_count=7", "seed=3", "relate.form=mi"])
    assert (recipe.prepare.min_count, recipe.seed, recipe.relate.form) == (7, 3, "mi")


def test_a_recipe_extends_another(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "plant"\n[prepare]\nmin_count = 9\n')
    recipe = load_recipe(str(tmp_path / "mine.toml"))
    assert recipe.prepare.min_count == 9
    assert recipe.relate == load_recipe("plant").relate


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("prepare.min_cuont=1", "unknown key 'prepare.min_cuont'.*Did you mean 'prepare.min_count'"),
        ("nonsense.key=1", "unknown key 'nonsense'; known:.*prepare"),
        ("prepare.min_count=many", "prepare.min_count must be int, not 'many'"),
        ("prepare.min_count=true", "prepare.min_count must be int"),
        ("prepare=3", "prepare must be a table"),
        ("relate.form=log", "value of relate.form: 'log'.*known: mi, normalised, positive"),
        ("seed", "overrides look like"),
    ],
)
def test_a_wrong_override_names_the_key_and_what_is_known(override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe("plant", [override])


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("seed = \n")
    with pytest.raises(RecipeError, match=r"broken.toml.*not valid TOML"):
        load_recipe(str(broken))
    with pytest.raises(RecipeError, match="no recipe file"):
        load_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(RecipeError, match="unknown recipe 'plnat'.*Did you mean 'plant'"):
        load_recipe("plnat")


def test_an_int_passes_as_a_float_and_nothing_else_does() -> None:
    assert load_recipe("plant", ["rank.sigma=2"]).rank.sigma == 2.0
    with pytest.raises(RecipeError):
        load_recipe("plant", ['rank.sigma="2"'])
