"""`plant recipe show` says of every knob who set it, and completion knows every verb and option."""

import json
import subprocess
from pathlib import Path

import pytest

from plant.cli.completion import options_of
from plant.cli.main import VERBS, main
from plant.recipe.origins import knobs_of
from plant.recipe.reading import load_recipe, named_recipes, recipe_table


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    captured = capsys.readouterr()
    assert end.value.code == 0, captured.err
    return captured.out


@pytest.mark.parametrize("name", named_recipes())
def test_the_knobs_are_those_of_the_recipe_and_each_has_an_origin(name: str) -> None:
    table = recipe_table(load_recipe(name))
    for knob in knobs_of(name):
        place = table
        for key in knob.key.split("."):
            place = place[key]
        assert place == knob.value
        assert knob.origin == "default" or knob.origin in named_recipes()


def test_an_origin_is_the_last_that_set_the_knob(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "base.toml").write_text('extends = "plant-cnn"\n[fit]\nepochs = 7\nbatch = 2\n')
    (tmp_path / "mine.toml").write_text('extends = "base.toml"\nseed = 3\n[fit]\nbatch = 4\n')
    mine = str(tmp_path / "mine.toml")
    shown = json.loads(printed(capsys, "recipe", "show", mine, "--json", "--set", "fit.patience=1"))
    assert shown["seed"] == {"value": 3, "origin": mine}
    assert shown["fit.batch"] == {"value": 4, "origin": mine}
    assert shown["fit.epochs"] == {"value": 7, "origin": str(tmp_path / "base.toml")}
    assert shown["fit.patience"] == {"value": 1, "origin": "--set"}
    assert shown["encoder.name"]["origin"] == "plant-cnn"
    assert shown["prepare.max_vocab"]["origin"] == "default"
    assert len(json.loads(printed(capsys, "recipe", "show", mine, "--json", "--changed"))) < len(shown)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_verb_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(capsys, "completion", shell)
    for verb in VERBS:
        assert verb in script
        for option in options_of(verb):
            assert option.removeprefix("--") in script


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("plant run --rec", "--recipe"),
        (".venv/bin/plant expl", "explain"),  # the demo's words, where plant is not on the PATH
        ("plant recipe show plant-print", "plant-printed plant-printed-backward"),
        ("plant recipe show --ch", "--changed"),
        ("plant codes add --o", "--out"),
    ],
)
def test_bash_completes_what_was_typed(typed: str, offered: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = typed.split()
    ask = f"{printed(capsys, 'completion', 'bash')}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _plant"
    done = subprocess.run(["bash", "-c", f"{ask}; echo ${{COMPREPLY[@]}}"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[: len(offered.split())] == offered.split()
