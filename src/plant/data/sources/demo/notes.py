"""Discharge summaries put together: one stream of notes, the same for a seed whatever else is drawn."""

import re
from collections.abc import Callable, Iterator
from datetime import date
from random import Random

from plant.data.sources.demo import history, hospital
from plant.data.sources.demo.chart import Chart, Style, medications, named_in
from plant.data.sources.demo.conditions import catalogue
from plant.data.sources.demo.patients import Patient, draw_patient, draw_stay
from plant.data.sources.demo.wording import unmark, wrapped
from plant.types import Note, Progress, silent

Section = Callable[[Chart], str]
# In the order of the page: title, share of notes that have it, writer.
SECTIONS: tuple[tuple[str, float, Section], ...] = (
    ("allergies", 1.0, history.allergies),
    ("complaint", 0.9, history.complaint),
    ("procedure", 0.5, history.procedure),
    ("hpi", 1.0, history.present_illness),
    ("ros", 0.5, history.review),
    ("past", 1.0, history.past),
    ("surgery", 0.5, history.surgery),
    ("home", 1.0, history.home_medications),
    ("social", 1.0, history.social),
    ("family", 0.9, history.family),
    ("exam", 1.0, hospital.examination),
    ("results", 1.0, hospital.results),
    ("imaging", 1.0, hospital.imaging),
    ("course", 1.0, hospital.course),
    ("discharge", 0.85, hospital.discharge_medications),
    ("disposition", 0.8, hospital.disposition),
    ("diagnosis", 0.65, hospital.diagnosis),
    ("condition", 0.8, hospital.condition),
    ("instructions", 1.0, hospital.instructions),
    ("followup", 0.9, hospital.followup),
)
BRACKETS = re.compile(r"\[\*\*.*?\*\*\]")


def demo_notes(*, notes: int = 3000, seed: int = 1, progress: Progress = silent) -> Iterator[Note]:
    """The first notes of the endless stream of this seed: asking for more never changes those before."""
    for number, (patient, stay) in zip(range(notes), _stays(seed), strict=False):
        yield write_note(f"demo-{number + 1:05d}", patient, Random(f"{seed}/{patient.id}/{stay}"))
        progress("writing notes", number + 1, notes)


def write_note(identity: str, patient: Patient, rng: Random) -> Note:
    """The discharge summary of one stay of a patient."""
    chart = _chart(patient, rng)
    text, evidence = unmark(_page(chart))
    return Note(
        id=identity,
        text=wrapped(text, chart.style.width) if chart.style.width else text,
        codes=chart.codes,
        split=patient.split,
        group=patient.id,
        evidence={code: evidence[code] for code in chart.codes},
    )


def _stays(seed: int) -> Iterator[tuple[Patient, int]]:
    number = 0
    while True:
        number += 1
        patient = draw_patient(number, Random(f"{seed}/{number}"))
        yield from ((patient, stay) for stay in range(patient.stays))


def _chart(patient: Patient, rng: Random) -> Chart:
    tables = catalogue()
    told = draw_stay(patient, rng)
    style = _style(rng)
    home, new = medications(told, tables, rng)
    return Chart(
        tables=tables,
        patient=patient,
        told=told,
        named_in=named_in(told, rng, without=() if "diagnosis" in style.titles else ("diagnosis",)),
        home=tuple(home),
        new=tuple(new),
        date=date(rng.randint(2125, 2190), rng.randint(1, 12), rng.randint(1, 28)),
        days=rng.randint(2, 16),
        complaint=rng.choice(tables.presentations[told[0].condition.theme]["complaint"]),
        style=style,
        rng=rng,
    )


def _style(rng: Random) -> Style:
    titles = rng.choice(catalogue().prose["style"]["titles"])
    return Style(
        titles={section: titles[section] for section, share, _ in SECTIONS if rng.random() < share},
        bullet=rng.choice(("# ", "- ", "* ", "#", "")),
        listing=rng.choice(("numbers", "dashes", "run")),
        width=rng.choice((0, 72, 78, 90)),
        blanks=rng.choice(("brackets", "brackets", "underscores")),
        length=rng.betavariate(1.2, 1.9),
    )


def _page(chart: Chart) -> str:
    sections = [(chart.style.titles[name], write(chart)) for name, _, write in SECTIONS if name in chart.style.titles]
    gap = "\n" if chart.style.listing != "run" else " "
    page = "\n\n".join([history.heading(chart), *(f"{title}:{gap}{body}" for title, body in sections)])
    return BRACKETS.sub("___", page) if chart.style.blanks == "underscores" else page
