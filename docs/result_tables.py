"""Draw the tables of a file of `docs/results/tables` anew wherever a page of results shows it.

    python docs/result_tables.py codiesp-d

A page says `<!-- table: tables/codiesp-d.csv -->` and the columns that it wants in a first line; rows are those of the
file. Means have four digits, minutes one, sizes none; ± and * stand for a column's `deviation` and `p` or `differs`.
"""

import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
DIGITS = {"minutes": 1, "CPU minutes": 1, "peak MB": 0, "parameters": 0}
ALPHA = 0.05


def cell(column: str, row: Mapping[str, str]) -> str:
    """What a page shows of a row under a column."""
    if column in row:
        return number(row[column], DIGITS.get(column))
    spread = row.get(f"{column} deviation", "")
    p = row.get(f"{column} p", "")
    differs = row.get(f"{column} differs") == "yes" or (p != "" and float(p) < ALPHA)
    return number(row[f"{column} mean"], 4) + (f" ±{float(spread):.4f}" if spread else "") + " *" * differs


def number(text: str, digits: int | None) -> str:
    """A figure with so many digits; what is none, and where no digits are asked for, stays as it is."""
    return text if digits is None or not text else f"{float(text):,.{digits}f}"


def drawn(header: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *([cell(column, row) for column in header] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def redrawn(page: str, name: str, rows: Sequence[Mapping[str, str]]) -> str:
    """The page with every table of a file drawn anew."""
    shown = re.compile(rf"(<!-- table: tables/{re.escape(name)}\.csv -->\n)((?:\|.*\n)+)")

    def anew(found: re.Match[str]) -> str:
        header = [column.strip() for column in found[2].splitlines()[0].strip("|").split("|")]
        return found[1] + drawn(header, rows)

    return shown.sub(anew, page)


def main() -> None:
    for name in sys.argv[1:]:
        with (RESULTS / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for path in sorted(RESULTS.glob("*.md")):
            before = path.read_text(encoding="utf-8")
            if (after := redrawn(before, name, rows)) != before:
                path.write_text(after, encoding="utf-8")
                print(f"{path.name}: {name}")


if __name__ == "__main__":
    main()
