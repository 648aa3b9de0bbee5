"""The documentation holds: its links and paths lead somewhere, and its tables of figures are the files beside them."""

import csv
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
RESULTS = [DOCS / "results.md", *sorted((DOCS / "results").glob("*.md"))]
PROGRAMS = [path for room in ("src", "tests", "benchmarks", "docs") for path in sorted((ROOT / room).rglob("*.py"))]

CODE = re.compile(r"^```.*?^```|^ {4}[^\n]*|`[^`]+`", re.MULTILINE | re.DOTALL)
FROM_THE_ROOT = re.compile(r"(?<![\w/.-])(?:src|tests|docs|benchmarks)/[\w./-]*[\w/]")
MODULE = re.compile(r"(?<![\w/.-])plant(?:\.\w+)+")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TABLE = re.compile(r"(?:<!-- table: (\S+) -->\n)?((?:^\|.*\n)+)", re.MULTILINE)
MARKED = re.compile(r"(.*?)(?: ±([\d.]+))?( \*)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
ALPHA = 0.05
SUMMARY = (  # the rows of the README's table: the study and the system on CANTEMIST, the system on CodiEsp-D
    ("cantemist", "prior", "prior"),
    ("cantemist", "tfidf", "tfidf"),
    ("cantemist", "laat-small", "multirescnn-small"),
    ("cantemist", "plant-cnn-learned", "plant-cnn-learned"),
    ("cantemist", "plant-cnn", "plant-cnn"),
    ("cantemist", "dictionary", "dictionary"),
    ("names", "interaction", "interaction"),
    ("candidates-compared", "plant-interaction", "plant-interaction"),
    ("candidates-cantemist", "candidates", "candidates"),
)
ON_CODIESP_D = {  # where it is not the study of all systems
    "candidates-cantemist": "candidates-codiesp-d",
    "candidates-compared": "candidates-codiesp-d-compared",
}

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def paths_in(text: str) -> set[str]:
    """What a page names as a path: anything from the root of the repository, and in code `room/file.py` and `room/`."""
    words = {word.strip("`,;:()") for code in CODE.findall(text) for word in code.split()}
    near = {word for word in words if re.fullmatch(r"[a-z_]+(/[\w-]+)*(\.py|/)", word)}
    return near | set(FROM_THE_ROOT.findall(text))


def exists(path: str) -> bool:
    """Whether a path leads somewhere from the root or from the package; a bare file may lie in any room."""
    if (ROOT / path).exists() or (ROOT / "src" / "plant" / path).exists():
        return True
    return "/" not in path and any(program.name == path for program in PROGRAMS)


def module_exists(name: str) -> bool:
    """Whether a dotted name is a module or a package of ours, or a name that its text has."""
    *above, last = name.split(".")
    stem, outer = ROOT.joinpath("src", *above, last), ROOT.joinpath("src", *above)
    if stem.is_dir() or stem.with_suffix(".py").is_file():
        return True
    texts = [path.read_text() for path in (outer.with_suffix(".py"), outer / "__init__.py") if path.is_file()]
    return any(re.search(rf"\b{last}\b", text) for text in texts)


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub spells them in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@by_page
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@by_page
def test_paths_that_a_page_names_exist(page: Path) -> None:
    assert [path for path in sorted(paths_in(page.read_text())) if not exists(path)] == []


@by_page
def test_modules_that_a_page_names_exist(page: Path) -> None:
    assert [name for name in sorted(set(MODULE.findall(page.read_text()))) if not module_exists(name)] == []


def test_pages_that_programs_name_exist() -> None:
    named = {(path, page) for path in PROGRAMS for page in re.findall(r"docs/[\w/-]+\.md", path.read_text())}
    assert [(path.name, page) for path, page in named if not (ROOT / page).is_file()] == []


def test_what_counts_as_a_path() -> None:
    page = "See docs/log.md and `nn/parts/table.py`, `cli/`; not `a/b`, `RUN/coder`.\n\n    python benchmarks/labels.py"
    assert paths_in(page) == {"docs/log.md", "nn/parts/table.py", "cli/", "benchmarks/labels.py"}
    assert not exists("nn/none.py")
    assert not module_exists("plant.nn.none")
    assert not module_exists("plant.registry.Nothing")


def tables_in(page: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """The tables of a page, each with the file that it names and its rows, the heading first."""
    for name, block in TABLE.findall(page.read_text()):
        header, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
        yield name, [header, *body]


def plain(cell: str) -> str:
    """A cell without bold, code marks and the commas of thousands."""
    bare = cell.replace("**", "").replace("`", "")
    return bare.replace(",", "") if THOUSANDS.fullmatch(bare) else bare


def same(shown: str, kept: str) -> bool:
    """Whether a cell shows what the file has; a number may have fewer digits than there."""
    try:
        return shown == kept or shown == f"{float(kept):.{len(shown.partition('.')[2])}f}"
    except ValueError:
        return False


def shows(cell: str, column: str, row: dict[str, str]) -> bool:
    """Whether a cell shows a column of a row, or its mean, its deviation and whether it differs."""
    if column in row:
        return same(plain(cell), row[column])
    value, deviation, star = MARKED.fullmatch(plain(cell)).groups()  # type: ignore[union-attr]
    p = row.get(f"{column} p", "")
    differs = row.get(f"{column} differs") == "yes" or (p != "" and float(p) < ALPHA)
    spread = same(deviation or "", row.get(f"{column} deviation", ""))
    return same(value, row[f"{column} mean"]) and spread and bool(star) == differs


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def differences(table: list[list[str]], rows: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    """The cells that show something else than the rows of the file, with their row and column."""
    header, body = table[0], table[1:]
    return [
        (line[0], column, cell)
        for line, row in zip(body, rows, strict=True)
        for column, cell in zip(header, line, strict=True)
        if not shows(cell, plain(column), row)
    ]


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.stem)
def test_tables_of_figures_equal_their_files(page: Path) -> None:
    for name, table in tables_in(page):
        if name:
            assert differences(table, read_table(DOCS / "results" / name)) == []


@pytest.mark.parametrize("page", RESULTS[1:], ids=lambda page: page.stem)
def test_every_table_of_figures_names_its_file(page: Path) -> None:
    assert [table[0] for name, table in tables_in(page) if not name] == []


def test_every_column_of_every_file_is_shown() -> None:
    shown = {(name, plain(column)) for page in RESULTS for name, table in tables_in(page) for column in table[0]}
    for path in sorted((DOCS / "results" / "tables").iterdir()):
        for column in read_table(path)[0]:
            base = re.sub(r" (mean|deviation|differs|p)$", "", column)
            assert {(f"tables/{path.name}", name) for name in (base, column)} & shown, f"{path.name}: {column}"


def row_of(study: str, system: str) -> dict[str, str]:
    rows = read_table(DOCS / "results" / "tables" / f"{study}.csv")
    return next(row for row in rows if row["system"] == system)


def test_the_summary_of_the_readme_is_that_of_the_studies() -> None:
    table = next(table for _, table in tables_in(ROOT / "README.md") if "minutes" in table[0])
    for line, (study, first, second) in zip(table[1:], SUMMARY, strict=True):
        cantemist, codiesp = row_of(study, first), row_of(ON_CODIESP_D.get(study, "codiesp-d"), second)
        kept = [
            row.get(f"{measure} mean") or row[measure]
            for row in (cantemist, codiesp)
            for measure in ("MAP", "micro-F1")
        ]
        shown = [figure for cell in line[1:] for figure in plain(cell).split(" / ")]
        figures = zip(shown, [*kept, cantemist.get("CPU minutes") or cantemist["minutes"]], strict=True)
        assert [pair for pair in figures if pair[0] and not same(*pair)] == []


def test_a_changed_cell_is_noticed() -> None:
    row = {"system": "caml", "MAP mean": "0.58731", "MAP deviation": "0.0054", "MAP p": "0.01", "minutes": "2100"}
    right = [["system", "MAP", "minutes"], ["`caml`", "**0.5873 ±0.0054 ***", "2,100"]]
    assert differences(right, [row]) == []
    for wrong in ("0.5874 ±0.0054 *", "0.5873 ±0.0055 *", "0.5873 ±0.0054", "0.5873 *"):
        assert differences([right[0], ["caml", wrong, "2,100"]], [row]) == [("caml", "MAP", wrong)]


def test_a_table_that_is_drawn_anew_shows_its_file(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    old = "| system | MAP | parameters |\n|---|---|---|\n| old | 1 | 2 |\n"
    page.write_text(f"Above.\n\n<!-- table: tables/some.csv -->\n{old}\nBelow.\n")
    one = {"system": "caml", "MAP mean": "0.58731", "MAP deviation": "0.0054", "MAP p": "0.01", "parameters": "2100"}
    rows = [one, {**one, "system": "prior", "MAP deviation": "", "MAP p": ""}]
    page.write_text(runpy.run_path(str(DOCS / "result_tables.py"))["redrawn"](page.read_text(), "some", rows))
    ((name, table),) = tables_in(page)
    assert (name, differences(table, rows)) == ("tables/some.csv", [])
    assert table[1] == ["caml", "0.5873 ±0.0054 *", "2,100"]
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("Above.", "Below.")


def test_the_walk_in_the_docs_is_the_walk_of_the_declared_steps() -> None:
    page = (ROOT / "docs" / "flow.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "flow_of_steps.py"))["updated"](page) == page
