"""The sections up to the examination: what was known and told before the hospital's own work."""

import re
from datetime import date, timedelta

from plant.data.sources.demo.chart import Chart, Medication
from plant.data.sources.demo.wording import enumerated, mark, misspelt, sentence

DRUG_NAME = re.compile(
    r"[A-Za-z][A-Za-z-]*(?: (?:glargine|lispro|degludec|pump|succinate|tartrate|mononitrate|sulfate))?"
)


def heading(chart: Chart) -> str:
    """Dates, birth, sex and service, as the registration prints them."""
    birth = f"{chart.date.year - chart.patient.person.age}-{chart.rng.randint(1, 12)}-{chart.rng.randint(1, 28)}"
    left = chart.date + timedelta(days=chart.days)
    return (
        f"Admission Date: {bracketed(chart.date)}     Discharge Date: {bracketed(left)}\n\n"
        f"Date of Birth: [**{birth}**]     Sex: {chart.patient.person.sex[0].upper()}\n\n"
        f"Service: {chart.rng.choice(chart.presentation['service'])}"
    )


def bracketed(date: date) -> str:
    """A date as de-identification leaves it."""
    return f"[**{date.year}-{date.month}-{date.day}**]"


def allergies(chart: Chart) -> str:
    """What the patient must not be given."""
    coded = [chart.name(told) for told in chart.named_in.get("allergies", ())]
    other = [chart.phrase("allergy", "other")] if chart.rng.random() < 0.15 else []
    return " / ".join(sentence(item) for item in coded + other) or chart.phrase("allergy", "none")


def complaint(chart: Chart) -> str:
    """Why the patient came."""
    return sentence(chart.complaint)


def procedure(chart: Chart) -> str:
    """What was done with instruments."""
    return chart.phrase("instructions", "procedure")


def present_illness(chart: Chart) -> str:
    """The story of this illness, with some of the history and what others suspected."""
    rng = chart.rng
    known = [chart.name(told) for told in chart.named_in.get("hpi", ())]
    first, rest = known[:4], known[4:]
    opening = (
        chart.phrase("hpi", "opening", history=enumerated(first)) if first else chart.phrase("hpi", "opening_bare")
    )
    story = chart.say(rng.choice(chart.presentation["story"]))
    told = [chart.phrase("hpi", "history", history=enumerated(rest))] if rest else []
    told += [chart.phrase("hpi", "denial") for _ in range(rng.randint(0, 2))]
    background = chart.tables.prose["hpi"]["background"]
    told += [chart.say(text) for text in rng.sample(background, round(chart.style.length * len(background)))]
    told += [chart.denial("hpi", "absent") for _ in range(rng.randint(0, 2))]
    rng.shuffle(told)
    arrival = [chart.phrase("hpi", "emergency") for _ in range(rng.randint(1, 3))]
    return (
        " ".join([opening, story, *told]) + ("\n\n" if rng.random() < 0.4 else " ") + " ".join(dict.fromkeys(arrival))
    )


def review(chart: Chart) -> str:
    """What the patient was asked and denied."""
    return " ".join(
        [chart.phrase("ros", "full"), *([chart.denial("ros", "absent")] if chart.rng.random() < 0.5 else [])]
    )


def past(chart: Chart) -> str:
    """Lasting conditions as a list, with entries that say what the patient does not have."""
    items = [chart.name(told) for told in chart.named_in.get("past", ())]
    if "surgery" not in chart.style.titles:
        items += [chart.name(told) for told in chart.named_in.get("surgery", ())]
    items += [chart.denial("past", "absent") for _ in range(chart.rng.choice((0, 0, 1, 1, 2)))]
    chart.rng.shuffle(items)
    return listed(chart, items) if items else chart.phrase("past", "none")


def surgery(chart: Chart) -> str:
    """Operations and what they left behind."""
    items = [chart.name(told) for told in chart.named_in.get("surgery", ())]
    return listed(chart, items) if items else "None."


def home_medications(chart: Chart) -> str:
    """What the patient took before; at least the drugs that the codes rest on."""
    common = chart.rng.sample(chart.tables.prose["medication"]["common"], chart.rng.randint(0, 3))
    lines = [written(chart, medication) for medication in chart.home] + common
    chart.rng.shuffle(lines)
    note = chart.phrase("medication", "note")
    return "\n".join(filter(None, [note, listed(chart, lines) if lines else "None."]))


def social(chart: Chart) -> str:
    """Home, habits and work; filler gives way where it would speak against a code."""
    coded = [chart.phrase("social", "coded", name=chart.name(told)) for told in chart.named_in.get("social", ())]
    kinds = [kind for kind in ("home", "tobacco", "alcohol", "drugs") if not chart.silenced(kind)]
    filler = [chart.phrase("social", kind) for kind in kinds if chart.rng.random() < 0.75]
    return " ".join(filler + coded) or "As above."


def family(chart: Chart) -> str:
    """What runs in the family and is not the patient's."""
    if chart.rng.random() < 0.25:
        return chart.phrase("family", "none")
    return " ".join(chart.denial("family", "member", kind="inherited") for _ in range(chart.rng.randint(1, 3)))


def listed(chart: Chart, items: list[str]) -> str:
    """Items in the writer's way of making lists."""
    if chart.style.listing == "run":
        return ", ".join(items) + "."
    if chart.style.listing == "numbers":
        return "\n".join(f"{number}. {sentence(item)}" for number, item in enumerate(items, start=1))
    return "\n".join(f"- {sentence(item)}" for item in items)


def written(chart: Chart, medication: Medication) -> str:
    """A line of a medication list, the drug's name marked where codes rest on it."""
    name = DRUG_NAME.match(medication.text)
    end = name.end() if name else 0
    drug = medication.text[:end]
    drug = misspelt(drug, chart.rng) if chart.rng.random() < 0.03 else drug
    return mark(drug, medication.codes) + medication.text[end:]
