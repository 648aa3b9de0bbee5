"""Recipes are strict: what is not known is an error that names what is."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from plant.errors import RecipeError
from plant.recipe.reading import change_recipe, load_recipe, named_recipes, recipe_from, recipe_table
from plant.recipe.schema import Part, Recipe
from plant.systems.members import member_recipes


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


@pytest.mark.parametrize(
    "override",
    [
        "fit.epochs=-1",
        "fit.batch=0",
        "fit.accumulate=0",
        "fit.learning_rate=-1",
        "seed=-1",
        "seed=99999999999",
        "rank.k=0",
        "rank.size=0",
        "vectors.size=0",
        "vectors.epochs=-1",
        "tfidf.longest=0",
        "tfidf.cost=-1",
        "choose.shrinkage=-1",
        "prepare.max_tokens=-5",
        "prepare.max_vocab=0",
        "relate.keep=0",
        "relate.named=-1",
        "pretrain.layers=0",
        "masked.share=0",
    ],
)
def test_a_number_out_of_range_is_refused_with_its_bounds(override: str) -> None:
    key = override.partition("=")[0]
    with pytest.raises(RecipeError, match=rf"recipe 'plant-cnn': {key} must be (at least|above) \d.*, not"):
        load_recipe("plant-cnn", [override])


@pytest.mark.parametrize(
    "override",
    [
        "fit.patience=0",
        "fit.segment=0",
        "prepare.max_tokens=0",
        "vectors.epochs=0",
        "relate.named=0",
        "masked.epochs=0",
    ],
)
def test_zero_stays_legal_where_it_means_off(override: str) -> None:
    load_recipe("plant-cnn", [override])


def test_no_epoch_at_all_is_refused_and_frozen_ones_are_enough() -> None:
    with pytest.raises(RecipeError, match=r"fit.epochs must be at least 1"):
        load_recipe("plant-cnn", ["fit.epochs=0"])
    assert load_recipe("plant-cnn", ["fit.epochs=0", "fit.frozen_epochs=1"]).fit.epochs == 0


def test_members_imply_their_system_and_go_with_no_other(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('members = ["prior", "tfidf"]\n')
    assert load_recipe(str(tmp_path / "mine.toml")).system == "members"
    with pytest.raises(RecipeError, match="members are no part of system 'tfidf'"):
        load_recipe("tfidf", ['members=["prior"]'])


def test_a_section_that_members_would_not_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "plant-interaction"\n[fit]\nepochs = 1\n')
    with pytest.raises(RecipeError, match=r"made of members \(plant-cnn, interaction\), so its own \[fit\]"):
        load_recipe(str(tmp_path / "mine.toml"))


def test_changes_of_what_the_members_are_do_not_reach_them() -> None:
    recipe = load_recipe("plant-interaction", ['members=["prior", "tfidf"]', "tfidf.longest=2"])
    assert recipe.changes == ("tfidf.longest=2",)


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("tfidf", "decoder.k=3", "system 'tfidf' has no decoder"),
        ("tfidf", "decoder=3", "decoder must be a table, not 3"),
        ("plant", "loss.gamma=3", 'loss needs a name, such as loss.name = "bce"'),
        ("plant", "encoder.options=3", "encoder.options must be a table"),
    ],
)
def test_a_part_without_a_name_is_told_what_fits(name: str, override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe(name, [override])


def test_a_recipe_object_is_changed_and_checked_as_a_file_is() -> None:
    recipe = change_recipe(load_recipe("plant"), ["fit.epochs=9", "encoder.dropout=0.1"])
    assert (recipe.fit.epochs, recipe.encoder.options["dropout"]) == (9, 0.1)
    assert change_recipe(load_recipe("plant-interaction"), ["fit.epochs=9"]).changes == ("fit.epochs=9",)
    with pytest.raises(RecipeError, match="seed must be at least 0"):
        change_recipe(replace(recipe, seed=-1), [])


def test_a_recipe_that_extends_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "self.toml").write_text('extends = "sub/../self.toml"\n')
    (tmp_path / "ring.toml").write_text('extends = "sub/other.toml"\n')
    (tmp_path / "sub" / "other.toml").write_text('extends = "../ring.toml"\n')
    for name in ("self", "ring"):
        with pytest.raises(RecipeError, match=r"extends itself: .* -> "):
            load_recipe(str(tmp_path / f"{name}.toml"))


def test_what_a_recipe_extends_is_looked_for_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "base.toml").write_text("seed = 1\n")
    (tmp_path / "sub" / "base.toml").write_text("seed = 7\n")
    (tmp_path / "sub" / "child.toml").write_text('extends = "base.toml"\n')
    monkeypatch.chdir(tmp_path)
    assert load_recipe("sub/child.toml").seed == 7
    (tmp_path / "sub" / "base.toml").unlink()
    assert load_recipe("sub/child.toml").seed == 1


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "number.toml").write_text("extends = 3\n")
    (tmp_path / "latin.toml").write_bytes("# Prüfung\n".encode("latin-1"))
    with pytest.raises(RecipeError, match="extends must be a recipe's name"):
        load_recipe(str(tmp_path / "number.toml"))
    with pytest.raises(RecipeError, match="is not UTF-8"):
        load_recipe(str(tmp_path / "latin.toml"))


@pytest.mark.parametrize("name", ["plant-printed", "plant-printed-small"])
def test_the_printed_recipes_are_two_models_with_the_published_equations(name: str) -> None:
    forward, backward = member_recipes(load_recipe(name))
    assert replace(backward, pretrain=replace(backward.pretrain, direction="forward")) == forward
    assert (forward.pretrain.direction, backward.pretrain.direction) == ("forward", "backward")
    options = forward.decoder.options
    assert not {"learned", "static", "planted", "listed"} & set(options)  # all three sources, wherever they point
    assert (options["static_values"], options["inattention"], options["scales"]) == ("raw", "zero", "fixed")
    assert options["segment"] == forward.fit.segment == 72
    assert (forward.rank.form, forward.rank.vectors) == ("mlp", "language-model")
    assert (forward.relate.form, forward.relate.named, forward.relate.marked) == ("mi", 0.0, False)
    assert min(forward.fit.frozen_epochs, forward.fit.unfreezing_epochs, forward.fit.epochs) > 0
    assert max(forward.fit.layer_rate, forward.fit.ranker_rate) < 1


def test_the_corrected_mask_goes_into_both_halves_of_a_printed_recipe() -> None:
    members = member_recipes(load_recipe("plant-printed-small", ["decoder.inattention=mask"]))
    assert [member.decoder.options["inattention"] for member in members] == ["mask", "mask"]


def test_the_learned_twin_differs_from_the_printed_recipe_by_what_is_planted() -> None:
    planted, learned = (
        member_recipes(load_recipe(name)) for name in ("plant-printed-small", "plant-printed-small-learned")
    )
    off = {"static": False, "planted": False}
    assert [replace(one, decoder=Part("planted", {**one.decoder.options, **off})) for one in planted] == list(learned)


def test_a_twin_takes_overrides_after_its_own_changes() -> None:
    members = member_recipes(load_recipe("plant-printed-small-learned", ["decoder.static=true", "fit.epochs=7"]))
    assert all(m.decoder.options["static"] and not m.decoder.options["planted"] for m in members)
    assert all(member.fit.epochs == 7 for member in members)


def test_changes_without_members_are_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "caml"\nchanges = ["fit.epochs=2"]\n')
    with pytest.raises(RecipeError, match="it has none"):
        load_recipe(str(tmp_path / "mine.toml"))


def test_the_full_size_inherits_no_names_no_marks_and_no_small_k() -> None:
    full = load_recipe("plant-full")
    assert (full.relate.named, full.relate.marked) == (0.0, False)
    assert full.decoder.options["k"] == 56


@pytest.mark.parametrize("name", ["label-descriptions-compat", "label-descriptions-compat-small"])
def test_label_descriptions_as_published_have_its_windows_bias_loss_and_pretraining(name: str) -> None:
    recipe = load_recipe(name)
    encoder, decoder = recipe.encoder.options, recipe.decoder.options
    assert (encoder["window"] + 2, encoder["overlap"], encoder["max_windows"]) == (200, 50, 10)
    assert (decoder["windows"], decoder["compat"], decoder["refresh"]) == ("max", True, 1)
    assert (decoder["label_bias"], recipe.loss.name, encoder["full_windows"]) == (False, "balanced-bce", True)
    assert recipe.masked.epochs > 0
    assert not recipe.masked.held_out_text


PRINTED = {  # recipe -> what its paper prints of sizes, rates and epochs, where they are no default of a part
    "plant-printed-forward": {
        "prepare.min_count": 3, "prepare.max_vocab": 60_000, "prepare.keep_numbers": False, "relate.keep": 1000,
        "pretrain.embedding": 400, "pretrain.hidden": 1152, "pretrain.layers": 3, "pretrain.epochs": 20,
        "pretrain.batch": 384, "pretrain.bptt": 80, "pretrain.weight_decay": 0.01, "pretrain.dropout": 1.0,
        "pretrain.sampled_words": 0, "pretrain.held_out_text": False, "fit.batch": 16, "fit.weight_decay": 0.01,
        "fit.detach": True, "fit.ranker_rate": 0.33, "fit.schedule": "one-cycle", "encoder.name": "awd-lstm",
        "loss.name": "bce", "choose.thresholds": "global",
    },
    "interaction-printed": {
        "encoder.name": "none", "decoder.form": "sigmoid", "decoder.slack": 0, "decoder.threshold": -1.0,
        "decoder.least": -1.0, "decoder.longest": False, "decoder.tune": True, "naming.titles_only": True,
        "naming.mined": False, "naming.kin": False, "naming.codes": "", "naming.synonyms": "",
    },
    "label-descriptions-compat": {
        "fit.learning_rate": 5e-5, "fit.epochs": 45, "fit.batch": 8, "fit.schedule": "slanted-triangular",
        "decoder.positions": 15, "fit.layer_rate": 1.0, "fit.frozen_epochs": 0, "fit.unfreezing_epochs": 0,
    },
    "bert": {
        "encoder.window": 510, "decoder.name": "window-pool", "decoder.windows": "max", "decoder.dropout": 0.1,
        "fit.learning_rate": 5e-5, "fit.layer_rate": 1.0, "fit.schedule": "slanted-triangular",
    },
    "plm-icd": {
        "encoder.window": 126, "encoder.overlap": 0, "decoder.name": "label-attention", "decoder.key_size": 768,
        "fit.learning_rate": 5e-5, "fit.epochs": 20, "fit.batch": 8, "fit.weight_decay": 0.0, "fit.layer_rate": 1.0,
    },
    "plm-ca": {
        "encoder.window": 126, "encoder.overlap": 0, "decoder.name": "cross-attention", "fit.learning_rate": 5e-5,
        "fit.epochs": 20, "fit.batch": 8, "fit.clip": 1.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PRINTED)
def test_a_recipe_says_what_its_paper_prints(name: str) -> None:
    recipe = load_recipe(name)
    assert {knob: value_of(recipe, knob) for knob in PRINTED[name]} == PRINTED[name]


def value_of(recipe: Recipe, knob: str) -> object:
    section, _, key = knob.partition(".")
    found = getattr(recipe, section)
    return found.options[key] if isinstance(found, Part) and key != "name" else getattr(found, key)


def test_the_small_printed_recipe_changes_sizes_epochs_and_dropout_and_no_equation() -> None:
    """What docs/models/plant-printed.md lists, and nothing else."""
    full, small = (load_recipe(f"plant-printed{size}-forward") for size in ("", "-small"))
    changed = {
        "rank": {"hidden"},
        "pretrain": {
            "embedding",
            "hidden",
            "layers",
            "epochs",
            "batch",
            "bptt",
            "dropout",
            "ar",
            "tar",
            "sampled_words",
        },
        "fit": {"frozen_epochs", "unfreezing_epochs", "epochs", "batch", "measure", "recompute"},
    }
    for section, keys in changed.items():
        ours, theirs = (asdict(getattr(one, section)) for one in (small, full))
        assert {key for key in ours if ours[key] != theirs[key]} == keys
    kept = {section: getattr(full, section) for section in changed}
    assert replace(small, encoder=full.encoder, **kept) == full
    assert small.encoder == Part("awd-lstm", {**full.encoder.options, "dropout": 0.5})


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1" + "0" * 400, "1e400"])
@pytest.mark.parametrize("key", ["tfidf.cost", "fit.learning_rate"])
def test_a_number_with_which_nothing_can_be_computed_is_refused(key: str, value: str) -> None:
    with pytest.raises(RecipeError, match=f"{key} must be"):
        load_recipe("tfidf", [f"{key}={value}"])
