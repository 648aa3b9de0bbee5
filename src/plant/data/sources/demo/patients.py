"""Patients and their stays: who has what, drawn so that codes follow a Zipf law and keep the company they keep."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from plant.data.sources.demo.conditions import Combination, Condition, catalogue
from plant.data.sources.demo.wording import expand

FIELD_BOOST = 7.0  # how much likelier a condition of the patient's own fields of medicine is
IMPLIED_SHARE, VAGUE_SHARE = 0.25, 0.60  # of the conditions that can be told so; the vague ones lie above the implied
STAYS = (1, 1, 1, 1, 1, 1, 2, 2, 3, 4)
SPLITS = ("train", "dev", "test")
SPLIT_WEIGHTS = (70, 10, 20)


@dataclass(frozen=True)
class Person:
    """What decides which conditions are likely; `fields` are the fields of medicine that the person keeps busy."""

    sex: str
    age: int
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Patient:
    """Someone with lasting conditions and one stay or more; all notes of a patient lie in one split."""

    id: str
    person: Person
    lasting: tuple[Condition, ...]
    stays: int
    split: str


@dataclass(frozen=True)
class Told:
    """A condition as one note tells of it; `codes` are those that its words speak for, its own first.

    `telling` is `named`, `vague` (a name that needs the finding beside it) or `implied` (no name at all).
    """

    condition: Condition
    codes: tuple[str, ...]
    telling: str
    finding: str


def draw_patient(number: int, rng: Random) -> Patient:
    """The patient of this number."""
    fields = tuple(rng.sample(sorted(catalogue().presentations), rng.randint(1, 3)))
    person = Person(rng.choice(("male", "female")), int(rng.triangular(19, 94, 70)), fields)
    count = min(11, max(0, round(rng.gauss(4.2, 2.4))))
    chosen = _draw((), [c for c in catalogue().conditions if c.lasting], count, person=person, rng=rng)
    return Patient(
        id=f"patient-{number:05d}",
        person=person,
        lasting=tuple(condition for condition in _with_company(chosen, person, rng) if condition.lasting),
        stays=rng.choice(STAYS),
        split=rng.choices(SPLITS, SPLIT_WEIGHTS)[0],
    )


def draw_stay(patient: Patient, rng: Random) -> tuple[Told, ...]:
    """What a stay of the patient is about; the first told is its main problem."""
    passing = [c for c in catalogue().conditions if not c.lasting and c.place != "derived"]
    company: list[Condition] = []
    while not any(_is_problem(condition) for condition in company):
        count = 1 + min(5, int(rng.expovariate(0.62)))
        drawn = _draw(patient.lasting, passing, count, person=patient.person, rng=rng)
        company = _with_company(drawn, patient.person, rng)
    codes = [condition.code for condition in company]
    told = [_told(condition, _codes(condition.code, codes), rng) for condition in company]
    return tuple(sorted(told, key=lambda one: not _is_problem(one.condition)))


def _is_problem(condition: Condition) -> bool:
    return condition.place in ("acute", "injury")


def _draw(
    have: Sequence[Condition], pool: Sequence[Condition], count: int, *, person: Person, rng: Random
) -> list[Condition]:
    """`have` and up to `count` more from the pool, at most one of a family."""
    weights = [c.weight * (FIELD_BOOST if c.theme in person.fields else 1.0) for c in pool]
    chosen = list(have)
    for condition in rng.choices(pool, weights, k=count):
        if _fits(condition, chosen, person):
            chosen.append(condition)
    return chosen


def _with_company(conditions: Iterable[Condition], person: Person, rng: Random) -> list[Condition]:
    """The conditions with those that often come along, without those whose necessary company is missing."""
    chosen = list(conditions)
    for condition in chosen:  # grows while it is read: company has company too
        for brings, probability in _companions(condition.code):
            if rng.random() < probability and not _has(chosen, brings):
                matching = [c for c in _starting_with(brings) if _fits(c, chosen, person)]
                chosen += rng.choices(matching, [c.weight for c in matching]) if matching else []
    return [c for c in chosen if all(p < 1 or _has(chosen, brings) for brings, p in _companions(c.code))]


def _fits(condition: Condition, chosen: Sequence[Condition], person: Person) -> bool:
    possible = condition.may_befall(person.sex, age=person.age)
    return possible and all(condition.family != other.family for other in chosen)


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


def _told(condition: Condition, codes: tuple[str, ...], rng: Random) -> Told:
    chance = rng.random()
    telling = "named"
    if condition.can_be_implied and chance < IMPLIED_SHARE:
        telling = "implied"
    elif condition.vague and condition.findings and chance < VAGUE_SHARE:
        telling = "vague"
    shown = condition.findings and (telling != "named" or rng.random() < 0.3)
    return Told(condition, codes, telling, expand(rng.choice(condition.findings), rng, {}) if shown else "")
