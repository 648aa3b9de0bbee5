"""The tabular list of ICD-10-CM: what each code, category, block and chapter is called and belongs to.

The package that carries it parses XML for seconds whenever it is imported. So its content is written down once, as a
table in the user's cache folder, and read from there; where no folder can be written, it is parsed each time.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from plant.store.artifact import atomic_file
from plant.store.temporary import cache_folder

PACKAGE = "simple-icd-10-cm"
FIELD, NAME = "\x1e", "\x1f"  # between fields, and between the names of one item: characters that stand in no name
HEADER = f"item{FIELD}parent{FIELD}names"


class Item(NamedTuple):
    """What an item of the list belongs to, and what it is called: title, inclusion terms, 'includes' notes."""

    parent: str
    names: tuple[str, ...]


def item(name: str) -> Item | None:
    """An item by name, such as 'I21.0', 'I21', 'I20-I25', '9'; None where there is none."""
    found = _tabular().get(name)
    if found is None:
        return None
    parent, _, names = found.partition(FIELD)
    return Item(parent, tuple(names.split(NAME)))


def items() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every item of the list with its names, in its order."""
    for name, row in _tabular().items():
        yield name, tuple(row.partition(FIELD)[2].split(NAME))


@cache
def _tabular() -> Mapping[str, str]:
    """The rows of the table by item: taken apart one by one when they are asked for, all at once would take longer."""
    path = cache_folder() / f"icd10cm-{version(PACKAGE)}.txt"
    text = _read(path)
    if text is None:
        text = _written_down()
        _keep(text, path)
    return dict(line.split(FIELD, 1) for line in text.split("\n")[1:-1])


def _read(path: Path) -> str | None:
    """The table, where a whole one is there."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if text.startswith(HEADER) and text.endswith("\n") else None


def _keep(text: str, path: Path) -> None:
    try:
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError:
        return  # a home that cannot be written costs time, and nothing else


def _written_down() -> str:
    import simple_icd_10_cm as package

    names = dict.fromkeys(package.get_all_codes())  # a block of one category has the name of its category
    return "\n".join([HEADER, *map(_row, names)]) + "\n"


def _row(name: str) -> str:
    import simple_icd_10_cm as package

    parent = next((above for above in package.get_ancestors(name) if above != name), "")
    names = (package.get_description(name), *package.get_inclusion_term(name), *package.get_includes(name))
    return FIELD.join([name, parent, NAME.join(names)]).replace("\n", " ")
