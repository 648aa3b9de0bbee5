"""The chart that the sections of one note are written from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property
from itertools import accumulate
from random import Random
from typing import Any

from plant.data.sources.demo.conditions import Catalogue, Condition, catalogue
from plant.data.sources.demo.patients import Patient, Told
from plant.data.sources.demo.wording import abbreviated, expand, mark, misspelt, sentence

# How likely each section names a condition of a place; the first section takes it if no other did.
NAMED_IN: Mapping[str, Mapping[str, float]] = {
    "chronic": {"past": 0.62, "hpi": 0.28, "course": 0.28, "diagnosis": 0.22},
    "acute": {"course": 0.80, "diagnosis": 0.45},
    "injury": {"imaging": 0.55, "course": 0.65, "diagnosis": 0.45},
    "surgery": {"surgery": 0.85, "hpi": 0.15},
    "social": {"social": 1.0},
    "allergy": {"allergies": 1.0},
    "directive": {"course": 1.0},
}
# What can be denied where: any condition, what a study shows, what comes on suddenly, what runs in families.
KINDS: Mapping[str, Callable[[Condition], bool]] = {
    "any": lambda condition: True,
    "seen": lambda condition: condition.theme not in ("mind", "endocrine"),
    "sudden": lambda condition: condition.place == "acute" and bool(condition.care),
    "inherited": lambda condition: condition.code.startswith(("C", "I21", "I63")) or condition.runs_in_families,
}
DENIAL_EXPONENT = 0.8  # what is denied is a little less skewed than what is so
ABBREVIATION_RATE, MISSPELLING_RATE, BRAND_RATE = 0.22, 0.06, 0.25


@dataclass(frozen=True)
class Style:
    """How the writer of a note lays it out; `length` from 0 (terse) to 1 (long-winded)."""

    titles: Mapping[str, str]
    bullet: str
    listing: str
    width: int
    blanks: str
    length: float


@dataclass(frozen=True)
class Medication:
    """A line of a medication list; `codes` are those that its name is evidence of."""

    text: str
    codes: tuple[str, ...]


@dataclass(frozen=True)
class Chart:
    """What every section needs to know; `named_in` are the conditions that a section names."""

    tables: Catalogue
    patient: Patient
    told: tuple[Told, ...]
    named_in: Mapping[str, tuple[Told, ...]]
    home: tuple[Medication, ...]
    new: tuple[Medication, ...]
    date: date
    days: int
    complaint: str
    style: Style
    rng: Random

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The codes of the note: of its conditions and of what is taken for long."""
        told = [code for one in self.told for code in one.codes]
        taken = [code for medication in self.home for code in medication.codes]
        return tuple(dict.fromkeys(told + taken))

    @cached_property
    def themes(self) -> frozenset[str]:
        """The fields of medicine in which the patient has something."""
        return frozenset(one.condition.theme for one in self.told)

    @cached_property
    def _families(self) -> frozenset[str]:
        return frozenset(one.condition.family for one in self.told)

    @property
    def presentation(self) -> Mapping[str, list[str]]:
        """How patients with the main problem of this stay come in."""
        return self.tables.presentations[self.told[0].condition.theme]

    def stranger(self, *, kind: str = "any") -> Condition:
        """A condition of this kind that the patient does not have, nor any of its family."""
        others, heights = strangers(kind)
        while True:
            other = self.rng.choices(others, cum_weights=heights)[0]
            if other.family not in self._families and other.may_befall(self.patient.person.sex):
                return other

    def say(self, template: str, **slots: object) -> str:
        """The template with its choices drawn and its slots filled."""
        return sentence(expand(template, self.rng, self._slots | slots))

    def pick(self, *path: str) -> str:
        """One of the templates at this place of the prose table."""
        node: Any = self.tables.prose
        for key in path:
            node = node[key]
        return self.rng.choice(node)

    def phrase(self, *path: str, **slots: object) -> str:
        """A filled template from this place of the prose table."""
        return self.say(self.pick(*path), **slots)

    def denial(self, *path: str, kind: str = "any", **slots: object) -> str:
        """A filled template that speaks of conditions the patient does not have, {x} and {y}."""
        one, other = self.stranger(kind=kind), self.stranger(kind=kind)
        test = self.rng.choice(self.tables.presentations[one.theme]["test"])
        return self.phrase(
            *path, x=self.wording(one, one.names), y=self.wording(other, other.names), test=test, **slots
        )

    def name(self, told: Told) -> str:
        """A name of the condition, marked as evidence."""
        vague = told.telling == "vague" and told.condition.vague
        return mark(self.wording(told.condition, vague or told.condition.names), told.codes)

    def findings(self, *, studies: bool) -> list[str]:
        """What was found of the conditions, by studies or at the bedside, marked where it is needed to decide."""
        found = [one for one in self.told if one.finding and (":" in one.finding) == studies]
        return [mark(one.finding, () if one.telling == "named" else one.codes) for one in found]

    def wording(self, condition: Condition, names: Sequence[str]) -> str:
        """One of the names as it comes out of a hasty pen."""
        text = expand(self.rng.choice(names), self.rng, {})
        if condition.theme != "status" and self.rng.random() < ABBREVIATION_RATE:
            text = abbreviated(text, self.rng, self.tables.abbreviations)
        return misspelt(text, self.rng) if self.rng.random() < MISSPELLING_RATE else text

    def silenced(self, filler: str) -> bool:
        """Whether a kind of filler would speak against a code of the note."""
        return any(code.startswith(self.tables.silences[filler]) for code in self.codes)

    @cached_property
    def _slots(self) -> dict[str, object]:
        male = self.patient.person.sex == "male"
        he, his, him = ("he", "his", "him") if male else ("she", "her", "her")
        rng = self.rng
        return {
            "he": he, "his": his, "him": him, "He": he.capitalize(), "His": his.capitalize(),
            "man": rng.choice(("man", "male", "gentleman") if male else ("woman", "female", "lady")),
            "sex": "M" if male else "F",
            "title": "Mr." if male else "Ms.",
            "age": self.patient.person.age,
            "complaint": self.complaint,
            "bullet": self.style.bullet,
            "rate": rng.randint(62, 98),
            "pressure": f"{rng.randint(108, 138)}/{rng.randint(58, 84)}",
            "number": rng.randint(100, 9999),
            "digit": rng.randint(1, 9),
            "year": self.date.year,
            "month": self.date.month,
            "day": self.date.day,
            "days": self.days,
        }  # fmt: skip


@cache
def strangers(kind: str) -> tuple[Sequence[Condition], Sequence[float]]:
    """Conditions that a note may deny, with the running sums of their weights."""
    free = [c for c in catalogue().conditions if c.theme != "status" and c.place != "derived" and KINDS[kind](c)]
    return free, list(accumulate(c.weight**DENIAL_EXPONENT for c in free))


def named_in(told: Sequence[Told], rng: Random, *, without: Sequence[str]) -> dict[str, tuple[Told, ...]]:
    """For each section the conditions that it names; every condition that has a name to be told is in one or more."""
    sections: dict[str, list[Told]] = {}
    for one in told:
        chances = {s: p for s, p in NAMED_IN[one.condition.place].items() if s not in without}
        drawn = [section for section, chance in chances.items() if rng.random() < chance]
        for section in (drawn or [next(iter(chances))]) if one.telling != "implied" else ():
            sections.setdefault(section, []).append(one)
    return {section: tuple(ones) for section, ones in sections.items()}


def medications(told: Sequence[Told], tables: Catalogue, rng: Random) -> tuple[list[Medication], list[Medication]]:
    """What the patient took at home, and what this stay added."""
    home: dict[str, Medication] = {}
    new: dict[str, Medication] = {}
    for one in told:
        drugs = one.condition.drugs
        if not drugs or (one.telling != "implied" and rng.random() < 0.15):
            continue
        several = one.condition.code.startswith(tables.several_drugs) and len(drugs) > 1 and rng.random() < 0.5
        for drug in rng.sample(drugs, 2 if several else 1):
            listed = home if one.condition.lasting else new
            medication = _medication(expand(drug, rng, {}), one, tables, rng)
            listed.setdefault(medication.text.split()[0], medication)
    return list(home.values()), list(new.values())


def _medication(drug: str, told: Told, tables: Catalogue, rng: Random) -> Medication:
    implied = told.codes if told.telling == "implied" else ()
    lasting = [code for code, stems in tables.long_term.items() if told.condition.lasting and drug.startswith(stems)]
    for generic, brand in tables.brands.items():
        if drug.startswith(generic) and rng.random() < BRAND_RATE:
            drug = drug.replace(generic, brand, 1)
    return Medication(drug, (*implied, *lasting))
