"""What is known of a language: cue words and headings, one TOML file for each."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

ALIASES: Mapping[str, str] = MappingProxyType({"spanish": "es", "english": "en"})


@cache
def language_table(language: str) -> Mapping[str, Any]:
    """The table of a language, by its name or two letters; empty where there is none."""
    name = ALIASES.get(language.lower(), language.lower())
    files = {file.name: file for file in resources.files("plant.text.languages").iterdir()}
    found = files.get(f"{name}.toml")
    return MappingProxyType(tomllib.loads(found.read_text(encoding="utf-8")) if found else {})
