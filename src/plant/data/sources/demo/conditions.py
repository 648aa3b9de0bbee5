"""What the notes can tell of: conditions with their codes, wording and company, read from the packaged tables."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from plant.codes.lists import tabular_names
from plant.data.sources.demo.paraphrase import Rewrite, names_from

# Frequency of the code at rank r is about 1 / (r + offset) ^ exponent (Zipf and Mandelbrot).
ZIPF_OFFSET, ZIPF_EXPONENT = 6.0, 1.3


@dataclass(frozen=True, slots=True)
class Condition:
    """One code: how often it occurs, where notes tell of it, and the words they may use.

    `names` decide alone, `vague` names only with a finding; `findings`, `labs` and `drugs` may stand in for a name.
    """

    code: str
    theme: str
    place: str
    weight: float
    family: str
    sex: str
    youngest: int
    names: tuple[str, ...]
    vague: tuple[str, ...]
    findings: tuple[str, ...]
    labs: Mapping[str, tuple[float, float]]
    drugs: tuple[str, ...]
    care: tuple[str, ...]
    lab_defined: bool

    @property
    def lasting(self) -> bool:
        """Whether it stays with the patient from one stay to the next."""
        return self.place not in ("acute", "injury", "directive", "derived")

    @property
    def runs_in_families(self) -> bool:
        """Whether relatives are asked about it."""
        return self.place == "chronic" and bool(self.care)

    def may_befall(self, sex: str, *, age: int = 100) -> bool:
        """Whether a person of this sex and age can have it."""
        return self.sex in ("", sex) and age >= self.youngest

    @property
    def can_be_implied(self) -> bool:
        """Whether a careful reader needs no name."""
        return bool(self.findings or (self.labs and (self.drugs or self.lab_defined)))


@dataclass(frozen=True, slots=True)
class Combination:
    """A code that changes (`becomes`) or brings another (`adds`) in the company of others."""

    of: str
    company: tuple[tuple[str, ...], ...]
    becomes: str = ""
    adds: str = ""


@dataclass(frozen=True, slots=True)
class Companion:
    """Who has a code that starts with `of` has, with this probability, one that starts with `brings`."""

    of: str
    brings: str
    probability: float


@dataclass(frozen=True)
class Catalogue:
    """All tables, read once."""

    conditions: tuple[Condition, ...]
    combinations: tuple[Combination, ...]
    companions: tuple[Companion, ...]
    long_term: Mapping[str, tuple[str, ...]]
    brands: Mapping[str, str]
    several_drugs: tuple[str, ...]
    silences: Mapping[str, tuple[str, ...]]
    abbreviations: Mapping[str, tuple[str, ...]]
    prose: Mapping[str, Any]
    presentations: Mapping[str, Mapping[str, list[str]]]
    labs: Mapping[str, Any]


@cache
def catalogue() -> Catalogue:
    """The tables beside this file, checked against the packaged code list."""
    rules = _toml("rules")
    return Catalogue(
        conditions=_without_shared_names(tuple(_conditions(rules))),
        combinations=tuple(_combination(row) for row in rules["combinations"]),
        companions=tuple(Companion(of, brings, float(share)) for of, brings, share in _rows("companions")),
        long_term={code: tuple(drugs) for code, drugs in rules["long_term"].items()},
        brands=rules["brands"],
        several_drugs=tuple(rules["several_drugs"]["prefixes"]),
        silences={filler: tuple(prefixes) for filler, prefixes in rules["silences"].items()},
        abbreviations={word: tuple(short) for word, *short in _rows("abbreviations")},
        prose=_toml("prose"),
        presentations=_toml("presentations"),
        labs=_toml("labs"),
    )


def _conditions(rules: Mapping[str, Any]) -> Iterator[Condition]:
    wording = _wording()
    rewrites = [(re.compile(pattern), replacement) for pattern, replacement in _rows("paraphrases")]
    for rank, (code, theme, place) in enumerate(_rows("codes"), start=1):
        words = wording.get(code, {})
        yield Condition(
            code=code,
            theme=theme,
            place=place,
            weight=(rank + ZIPF_OFFSET) ** -ZIPF_EXPONENT,
            family=family_of(code, rules["families"], rules["singles"]["prefixes"]),
            sex=next((sex for sex in ("male", "female") if code.startswith(tuple(rules["sex"][sex]))), ""),
            youngest=50 if code.startswith(tuple(rules["youngest"]["prefixes"])) else 0,
            names=tuple(words.get("names", ())) or _official_names(code, rewrites),
            labs={analyte: (low, high) for analyte, (low, high) in words.get("labs", {}).items()},
            lab_defined=code in rules["lab_defined"]["codes"],
            **{key: tuple(words.get(key, ())) for key in ("vague", "findings", "drugs", "care")},
        )


def family_of(code: str, families: Mapping[str, list[str]], singles: list[str]) -> str:
    """What a note has one code of: a named family, the code itself, or its category."""
    for family, prefixes in families.items():
        if code.startswith(tuple(prefixes)):
            return family
    return code if code.startswith(tuple(singles)) else code[:3]


def _official_names(code: str, rewrites: list[Rewrite]) -> tuple[str, ...]:
    title, *terms = tabular_names(code)
    return names_from(title, terms, rewrites)


def _without_shared_names(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Conditions whose names are theirs alone: the first to claim a name, the more frequent code, keeps it."""
    claims = Counter[str]()
    kept = []
    for condition in conditions:
        names = tuple(name for name in condition.names if not claims[name.lower()])
        claims.update({name.lower() for name in names})
        kept.append(replace(condition, names=names))
    return tuple(condition for condition in kept if condition.names)


def _combination(row: Mapping[str, Any]) -> Combination:
    company = tuple(tuple(prefixes) for prefixes in row["with"])
    return Combination(row["of"], company, row.get("becomes", ""), row.get("adds", ""))


def _wording() -> dict[str, dict[str, Any]]:
    folder = files("plant.data.sources.demo") / "tables" / "wording"
    merged: dict[str, dict[str, Any]] = {}
    for table in sorted(folder.iterdir(), key=lambda entry: entry.name):
        merged |= tomllib.loads(table.read_text("utf-8"))
    return merged


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(_table(f"{name}.toml"))


def _rows(name: str) -> list[list[str]]:
    lines = _table(f"{name}.tsv").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def _table(name: str) -> str:
    return (files("plant.data.sources.demo") / "tables" / name).read_text("utf-8")
