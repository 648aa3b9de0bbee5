"""Patients and their stays: who has what, drawn so that codes follow a Zipf law and keep the company they keep."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from plant.data.sources.demo.conditions import Combination, Condition, catalogue

FIELD_BOOST = 7.0  # how much likelier a condition of the patient's own fields of medicine is
STAYS = (1, 1, 1, 1, 1, 1, 2, 2, 3, 4)
SPLITS = ("train", "dev", "test")
SPLIT_WEIGHTS = (70, 10, 20)


@dataclass(frozen=True)
class Patient:
    """Someone with lasting conditions and one stay or more; all notes of a patient lie in one split."""

    id: str
    sex: str
    age: int
    fields: tuple[str, ...]
    lasting: tuple[Condition, ...]
    stays: int
    split: str


@dataclass(frozen=True)
class Told:
    """A condition as one note tells of it; `codes` are those that its words speak for, its own first.

    `telling` is `named`, `vague` (a name that needs a finding beside it) or `implied` (no name at all).
    """

    condition: Condition
    codes: tuple[str, ...]
    telling: str


def draw_patient(number: int, rng: Random) -> Patient:
    """The patient of this number."""
    tables = catalogue()
    sex = rng.choice(("male", "female"))
    fields = tuple(rng.sample(sorted(tables.presentations), rng.randint(1, 3)))
    count = min(11, max(0, round(rng.gauss(4.2, 2.4))))
    chosen = _draw((), [c for c in tables.conditions if c.lasting], count, sex=sex, fields=fields, rng=rng)
    return Patient(
        id=f"patient-{number:05d}",
        sex=sex,
        age=int(rng.triangular(19, 94, 68)),
        fields=fields,
        lasting=tuple(condition for condition in _with_company(chosen, sex, rng) if condition.lasting),
        stays=rng.choice(STAYS),
        split=rng.choices(SPLITS, SPLIT_WEIGHTS)[0],
    )


def draw_stay(patient: Patient, rng: Random) -> tuple[Told, ...]:
    """What a stay of the patient is about; the first told is its main problem."""
    passing = [c for c in catalogue().conditions if not c.lasting and c.place != "derived"]
    company: list[Condition] = []
    while not any(_is_problem(condition) for condition in company):
        count = 1 + min(5, int(rng.expovariate(0.62)))
        drawn = _draw(patient.lasting, passing, count, sex=patient.sex, fields=patient.fields, rng=rng)
        company = _with_company(drawn, patient.sex, rng)
    codes = [condition.code for condition in company]
    told = [Told(condition, _codes(condition.code, codes), _telling(condition, rng)) for condition in company]
    return tuple(sorted(told, key=lambda one: not _is_problem(one.condition)))


def _is_problem(condition: Condition) -> bool:
    return condition.place in ("acute", "injury")


def _draw(
    have: Sequence[Condition],
    pool: Sequence[Condition],
    count: int,
    *,
    sex: str,
    fields: Sequence[str],
    rng: Random,
) -> list[Condition]:
    """`have` and up to `count` more from the pool, at most one of a family."""
    weights = [c.weight * (FIELD_BOOST if c.theme in fields else 1.0) for c in pool]
    chosen = list(have)
    for condition in rng.choices(pool, weights, k=count):
        if _fits(condition, chosen, sex):
            chosen.append(condition)
    return chosen


def _with_company(conditions: Iterable[Condition], sex: str, rng: Random) -> list[Condition]:
    """The conditions with those that often come along, without those whose necessary company is missing."""
    chosen = list(conditions)
    for condition in chosen:  # grows while it is read: company has company too
        for brings, probability in _companions(condition.code):
            if rng.random() < probability and not _has(chosen, brings):
                matching = [c for c in _starting_with(brings) if _fits(c, chosen, sex)]
                chosen += rng.choices(matching, [c.weight for c in matching]) if matching else []
    return [c for c in chosen if all(p < 1 or _has(chosen, brings) for brings, p in _companions(c.code))]


def _fits(condition: Condition, chosen: Sequence[Condition], sex: str) -> bool:
    return condition.sex in ("", sex) and all(condition.family != other.family for other in chosen)


def _has(chosen: Sequence[Condition], prefix: str) -> bool:
    return any(condition.code.startswith(prefix) for condition in chosen)


@cache
def _companions(code: str) -> tuple[tuple[str, float], ...]:
    return tuple((c.brings, c.probability) for c in catalogue().companions if code.startswith(c.of))


@cache
def _starting_with(prefix: str) -> tuple[Condition, ...]:
    return tuple(c for c in catalogue().conditions if c.code.startswith(prefix) and c.place != "derived")


def _codes(code: str, present: Sequence[str]) -> tuple[str, ...]:
    """The codes that the words for a condition speak for: its own or what it becomes, and those it helps to make."""
    rule = _combination(code, present)
    own = (rule.becomes or code, rule.adds) if rule else (code,)
    made = [_combination(other, present) for other in present if other != code]
    helped = [r.becomes or r.adds for r in made if r and any(code.startswith(prefixes) for prefixes in r.company)]
    return tuple(dict.fromkeys(filter(None, (*own, *helped))))


def _combination(code: str, present: Sequence[str]) -> Combination | None:
    for rule in catalogue().combinations:
        if code.startswith(rule.of) and code != rule.adds and _together(rule, present):
            return rule
    return None


def _together(rule: Combination, present: Sequence[str]) -> bool:
    return all(any(code.startswith(prefixes) for code in present) for prefixes in rule.company)


def _telling(condition: Condition, rng: Random) -> str:
    chance = rng.random()
    if condition.can_be_implied and chance < 0.25:
        return "implied"
    return "vague" if condition.vague and condition.findings and chance < 0.55 else "named"
