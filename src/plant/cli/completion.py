"""`plant completion`: a script that lets a shell complete verbs, options and recipes."""

import argparse
import importlib
from collections.abc import Iterator, Mapping

SHELLS = ("bash", "zsh", "fish")
BASH = """_plant() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  case "$before" in
    --recipe|--recipes) COMPREPLY=($(compgen -W "{recipes}" -- "$word")); return;;
  esac
  if [ "$COMP_CWORD" = 1 ]; then COMPREPLY=($(compgen -W "{verbs}" -- "$word")); return; fi
  case "$word" in
    -*) ;;
    *)
      if [ "${{COMP_WORDS[1]}} $before" = "recipe show" ]; then
        COMPREPLY=($(compgen -W "{recipes}" -- "$word"))
      else
        COMPREPLY=($(compgen -f -- "$word"))
      fi
      return;;
  esac
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
}}
complete -o filenames -F _plant plant
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=SHELLS, help='print the script for this shell: eval "$(plant completion bash)"'
    )


def run(arguments: argparse.Namespace) -> None:
    from plant.cli.main import VERBS
    from plant.recipe.reading import named_recipes

    options = {verb: options_of(verb) for verb in VERBS}
    recipes = named_recipes()
    print(
        _fish(VERBS, options, recipes) if arguments.shell == "fish" else _bash(arguments.shell, options, recipes),
        end="",
    )


def options_of(verb: str) -> list[str]:
    """The long options of a verb and of its actions, such as `plant recipe show`."""
    parser = argparse.ArgumentParser()
    importlib.import_module(f"plant.cli.{verb}").configure(parser)
    return sorted(set(_options(parser)))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _options(inner)


def _bash(shell: str, options: Mapping[str, list[str]], recipes: tuple[str, ...]) -> str:
    cases = "\n".join(
        f'    {verb}) COMPREPLY=($(compgen -W "{" ".join(own)}" -- "$word"));;' for verb, own in options.items()
    )
    script = BASH.format(recipes=" ".join(recipes), verbs=" ".join(options), cases=cases)
    return ("autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "") + script


def _fish(verbs: Mapping[str, str], options: Mapping[str, list[str]], recipes: tuple[str, ...]) -> str:
    lines = [f"complete -c plant -n __fish_use_subcommand -a {verb} -d '{text}'" for verb, text in verbs.items()]
    lines += [
        f"complete -c plant -n '__fish_seen_subcommand_from {verb}' -l {option.removeprefix('--')}"
        for verb, own in options.items()
        for option in own
    ]
    lines.append(f"complete -c plant -l recipe -x -a '{' '.join(recipes)}'")
    return "\n".join(lines) + "\n"
