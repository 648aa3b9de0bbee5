"""A report as Markdown tables."""

from collections.abc import Iterable, Sequence

from plant.evaluate.measures.bins import Group
from plant.evaluate.report.content import Report, WorstCode
from plant.evaluate.report.words import count, facts_of, interval, number, share

GROUP_HEADER = ("", "codes", "gold", "accepted", "P", "R", "F1", "macro-F1", "R@15", "AUC")
WORST_HEADER = ("code", "description", "training notes", "gold", "accepted", "right")


def markdown_of(report: Report) -> str:
    """All tables of the report, and the definition of every measure."""
    parts = [
        f"# Evaluation of {report.frame.system or 'a system'}",
        table(("", ""), facts_of(report).items()),
        *_measures(report),
        *_section("By training frequency", GROUP_HEADER, map(_group, report.bins)),
        *_section("By training frequency: the frequency prior", GROUP_HEADER, map(_group, report.prior_bins)),
        *_section("By chapter", GROUP_HEADER, map(_group, report.chapters)),
        *_section("Codes with the most wrong decisions", WORST_HEADER, map(_worst, report.worst)),
        "## Definitions",
        "\n".join(f"- **{name}**: {text}" for name, text in report.definitions.items()),
    ]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _measures(report: Report) -> Iterable[str]:
    for title, names in report.families.items():
        rows = [
            (
                name,
                number(value.value),
                interval(value),
                number(report.prior[name].value) if name in report.prior else "",
            )
            for name, value in ((name, report.measures[name]) for name in names)
        ]
        yield from _section(title, ("measure", "value", "95 % interval", "frequency prior"), rows)
    for part, values in report.parts.items():
        cells = [(name, number(value.value), interval(value)) for name, value in values.items()]
        yield from _section(f"Only {part} codes", ("measure", "value", "95 % interval"), cells)
    explanations = report.frame.explanations
    if explanations:
        names = tuple(next(iter(explanations.values())))
        figures = [(explainer, *(share(value) for value in row.values())) for explainer, row in explanations.items()]
        yield from _section("Explanations", ("explainer", *names), figures)


def _section(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[str, ...]:
    lines = list(rows)
    return (f"## {title}", table(header, lines)) if lines else ()


def _group(group: Group) -> tuple[str, ...]:
    counts = (group.labels, group.gold, group.accepted)
    shares = (group.precision, group.recall, group.f1, group.macro_f1, group.recall_at_15, group.auc)
    return (group.name, *map(count, counts), *map(share, shares))


def _worst(code: WorstCode) -> tuple[str, ...]:
    return (code.code, code.description, *map(count, (code.train, code.gold, code.accepted, code.right)))
