"""The sections from the examination on: what the hospital found, did and advised."""

from datetime import timedelta

from plant.data.sources.demo.chart import Chart
from plant.data.sources.demo.history import bracketed, listed, written
from plant.data.sources.demo.patients import Told
from plant.data.sources.demo.wording import mark, sentence

OWN_CARE_SHARE = 0.6  # of the problems; the others are told with care that any problem may get
# Which fields of medicine make the examination of a system abnormal.
SYSTEMS = {
    "heart": {"heart"},
    "lungs": {"lungs", "heart"},
    "gut": {"gut", "cancer"},
    "brain": {"brain", "mind"},
    "bone": {"bone", "trauma"},
    "skin": {"skin", "infection", "trauma"},
}


def examination(chart: Chart) -> str:
    """Vital signs and systems, abnormal where the patient has something of that field."""
    lines = [chart.phrase("exam", "vitals"), chart.phrase("exam", "general")]
    for system, themes in SYSTEMS.items():
        state = "abnormal" if chart.themes & themes else "normal"
        if chart.rng.random() < 0.5 + chart.style.length:
            lines.append(chart.phrase("exam", "systems", system, state))
    lines += [chart.phrase("exam", "finding", finding=finding) for finding in chart.findings(studies=False)]
    if chart.rng.random() < chart.style.length:
        lines.append(chart.phrase("exam", "discharge"))
    return "\n".join(lines)


def results(chart: Chart) -> str:
    """Blood panels of one day or more; what is out of range for a reason is out of range here."""
    days = min(chart.days, 1 + round(chart.style.length * chart.rng.randint(1, 12)))
    extra = chart.rng.sample(chart.tables.labs["sometimes"], chart.rng.randint(0, 4))
    return "\n".join(_panel(chart, day, days, extra) for day in range(days))


def _panel(chart: Chart, day: int, days: int, extra: list[str]) -> str:
    causes = _causes(chart, last=day > 0 and day == days - 1)
    once = (*extra, *causes) if day == 0 else ()
    analytes = list(dict.fromkeys([*chart.tables.labs["daily"], *once]))
    hour, minute = chart.rng.randint(4, 22), chart.rng.choice(("00", "15", "30", "45"))
    stamp = f"{bracketed(chart.date + timedelta(days=day))} {hour:02d}:{minute} BLOOD "
    return stamp + " ".join(_value(chart, analyte, causes.get(analyte)) for analyte in analytes)


def _causes(chart: Chart, *, last: bool) -> dict[str, Told]:
    """For each analyte the condition that moves it; what passes is back in range on the last day."""
    moving = [told for told in chart.told if told.condition.lasting or not last]
    return {analyte: told for told in reversed(moving) for analyte in told.condition.labs}


def _value(chart: Chart, analyte: str, cause: Told | None) -> str:
    low, high, decimals = chart.tables.labs["range"][analyte]
    if cause is None:
        return f"{analyte}-{chart.rng.uniform(low, high):.{decimals}f}"
    low, high = cause.condition.labs[analyte]
    text = f"{analyte}-{chart.rng.uniform(low, high):.{decimals}f}*"
    return mark(text, cause.codes if cause.telling == "implied" else ())


def imaging(chart: Chart) -> str:
    """Studies: what they found, what they named, what they excluded, and what was normal anyway."""
    rng = chart.rng
    lines = [chart.phrase("imaging", "finding", finding=finding) for finding in chart.findings(studies=True)]
    for told in chart.named_in.get("imaging", ()):
        test = rng.choice(chart.tables.presentations[told.condition.theme]["test"])
        lines.append(chart.phrase("imaging", "named", name=chart.name(told), test=test))
    lines += [
        chart.denial("imaging", "absent", kind="seen") for _ in range(rng.randint(1, 2 + round(2 * chart.style.length)))
    ]
    quiet = [theme for theme in chart.tables.prose["imaging"]["filler"] if theme not in chart.themes]
    lines += [chart.phrase("imaging", "filler", theme) for theme in quiet if rng.random() < chart.style.length]
    rng.shuffle(lines)
    return "\n".join(sentence(line) for line in lines)


def course(chart: Chart) -> str:
    """What happened, by problem or as a story, with problems that were considered and dropped."""
    rng = chart.rng
    by_problem = rng.random() < 0.6
    parts = [_problem(chart, told, by_problem=by_problem) for told in chart.named_in.get("course", ())]
    unnamed = [told for told in chart.told if told.telling == "implied" and told.condition.care]
    parts += [_unnamed(chart, told, by_problem=by_problem) for told in unnamed if rng.random() < 0.6]
    bullet = chart.style.bullet if by_problem else ""
    excluded = range(rng.randint(1, 3 + round(2 * chart.style.length)))
    parts += [chart.denial("course", "excluded", bullet=bullet) for _ in excluded]
    parts += [_other_drug(chart)] if rng.random() < 0.3 else []
    rng.shuffle(parts)
    routine = rng.sample(chart.tables.prose["course"]["routine"], rng.randint(0, 3)) if by_problem else []
    parts = [chart.phrase("course", "summary"), *parts, *_padding(chart), *map(chart.say, routine)]
    return ("\n" if by_problem else " ").join(parts)


def _padding(chart: Chart) -> list[str]:
    """What fills the pages of long-winded writers: days, consultations, plans."""
    length = chart.style.length
    days = range(2, min(chart.days, round(2 + 14 * length**2)))
    said = [chart.phrase("course", "days", n=day) for day in days]
    for kind, share in (("padding", 0.2 + 0.8 * length), ("consults", length**2), ("transitional", length**2)):
        texts = chart.tables.prose["course"][kind]
        said += [chart.say(text) for text in chart.rng.sample(texts, round(share * len(texts)))]
    return said


def _problem(chart: Chart, told: Told, *, by_problem: bool) -> str:
    kind = "problem" if by_problem else "chronic" if told.condition.lasting else "active"
    name = chart.name(told)
    return chart.phrase("course", kind, name=sentence(name) if by_problem else name, care=_care(chart, told))


def _unnamed(chart: Chart, told: Told, *, by_problem: bool) -> str:
    if by_problem:
        return chart.phrase("course", "unnamed", topic=chart.pick("course", "topics"), care=_care(chart, told))
    return _care(chart, told)


def _care(chart: Chart, told: Told) -> str:
    own = told.condition.care if chart.rng.random() < OWN_CARE_SHARE else ()
    said = [chart.say(chart.rng.choice(own))] if own else []
    if not said or chart.rng.random() < chart.style.length:
        said.append(chart.phrase("course", "kept" if told.condition.lasting else "treated"))
    return " ".join(said)


def _other_drug(chart: Chart) -> str:
    others = [chart.stranger() for _ in range(6)]
    drugs = [drug for condition in others for drug in condition.drugs] or ["an herbal supplement"]
    return chart.phrase("course", "other_drug", drug=chart.say(chart.rng.choice(drugs)).lower())


def discharge_medications(chart: Chart) -> str:
    """The home list again, with what is new."""
    prose = chart.tables.prose["medication"]
    extra = chart.rng.sample(prose["acute"], chart.rng.randint(0, 2)) + chart.rng.sample(prose["common"], 1)
    lines = [written(chart, medication) for medication in (*chart.home, *chart.new)] + extra
    return listed(chart, lines)


def disposition(chart: Chart) -> str:
    """Where the patient went."""
    return chart.phrase("instructions", "disposition")


def diagnosis(chart: Chart) -> str:
    """Some of the conditions once more, as a list."""
    told = chart.named_in.get("diagnosis", ())
    first, rest = told[:1], told[1:]
    lines = [chart.phrase("diagnosis", "primary")] if rest and chart.rng.random() < 0.6 else []
    lines += [sentence(chart.name(one)) for one in first]
    lines += [chart.phrase("diagnosis", "secondary")] if lines and rest and chart.rng.random() < 0.6 else []
    lines += [sentence(chart.name(one)) for one in rest]
    return "\n".join(lines) or "As above."


def condition(chart: Chart) -> str:
    """How the patient was on leaving."""
    return chart.phrase("instructions", "condition")


def instructions(chart: Chart) -> str:
    """What the patient was told, with warnings about things that have not happened."""
    advice = chart.tables.prose["instructions"]["advice"]
    lines = [chart.phrase("instructions", "opening")]
    lines += [chart.say(text) for text in chart.rng.sample(advice, 2 + round(chart.style.length * (len(advice) - 2)))]
    lines += [chart.denial("instructions", "warning", kind="sudden") for _ in range(chart.rng.randint(0, 2))]
    return " ".join(lines)


def followup(chart: Chart) -> str:
    """Appointments."""
    lines = [chart.phrase("instructions", "followup") for _ in range(chart.rng.randint(1, 2))]
    return "\n".join(dict.fromkeys(lines))
