"""The coding systems, one row each: how a code is written, what it belongs to, and what it is called."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from plant.codes.lists import chapters, is_known, short_titles, tabular_ancestors, tabular_names, title


@dataclass(frozen=True)
class System:
    """A coding system; `written` is the normal form, which all but `rewrite` expect."""

    written: re.Pattern[str]
    rewrite: Callable[[str], str]  # a text in capitals into the normal form, as far as it is a code at all
    category: Callable[[str], str]  # what chapters are ranges of
    ancestors: Callable[[str], tuple[str, ...]]
    names: Callable[[str], tuple[str, ...]]  # title (or empty), then synonyms
    hint: str = ""


def normal_form(text: str, name: str) -> str | None:
    """A text without surrounding blanks as a code of the system, or None where it is no code."""
    if name == "other":
        return text or None
    capitals = text.upper()
    if any(SYSTEMS[part].written.fullmatch(capitals) for part in JOINED.get(name, (name,))):
        return capitals
    if not text or name in JOINED:  # which of the two puts the dot is not known, so it must be there
        return None
    rewritten = SYSTEMS[name].rewrite(capitals)
    return rewritten if SYSTEMS[name].written.fullmatch(rewritten) else None


def strange_codes(codes: Iterable[str], name: str) -> list[str]:
    """Codes that are not written as their system writes codes: a hospital's own, or slips."""
    return [code for code in codes if normal_form(code, name) != code] if name in (*SYSTEMS, *JOINED) else []


def single_system(code: str, name: str) -> str:
    """The system of a code in normal form: the one named, or the one of two joined that writes codes like this."""
    return next(part for part in JOINED.get(name, (name,)) if SYSTEMS[part].written.fullmatch(code))


def _rewrite_diagnosis(text: str) -> str:
    lead = {"V": 3, "E": 4}.get(text[:1])
    return _dotted(text, lead) if lead else _with_zeros(text, 3, "icd9-diagnosis")


def _rewrite_pcs(text: str) -> str:
    lost_zeros = text.isdecimal() and len(text) in (5, 6)  # longer than a table's beginning, too short for a code
    return text.zfill(7) if lost_zeros else text


def _rewrite_icdo3(text: str) -> str:
    """'85003', 'M-8500/3' and '8500/3' alike; the slash stands behind the histology."""
    text = text.removeprefix("M").removeprefix("-")
    return text if "/" in text[:5] or len(text) == 4 else f"{text[:4]}/{text[4:]}"


def _dotted(text: str, lead: int) -> str:
    """The dot behind the first `lead` characters, unless it stands elsewhere already."""
    text = text.removesuffix(".")
    return text if "." in text else f"{text[:lead]}.{text[lead:]}".removesuffix(".")


def _with_zeros(text: str, lead: int, system: str) -> str:
    """A number with the zeros that a spreadsheet took away.

    With a dot they can be counted; without, the list decides, and the code as written goes before one with more zeros.
    """
    whole, dot, rest = text.partition(".")
    if dot:
        return f"{whole.zfill(lead)}.{rest}".removesuffix(".")
    readings = [text.zfill(length) for length in range(max(len(text), lead), lead + 3)] or [text]
    return _dotted(next((reading for reading in readings if is_known(reading, system)), readings[0]), lead)


def _before_dot(code: str) -> str:
    return code.partition(".")[0]


def _chapter_range(category: str, system: str) -> list[str]:
    return [chapter.range for chapter in chapters(system) if chapter.holds(category)]


def _chapter_name(node: str, system: str) -> str:
    return next((chapter.name for chapter in chapters(system) if chapter.range == node), "")


def _dotted_ancestors(code: str, *, system: str) -> tuple[str, ...]:
    category, _, rest = code.partition(".")
    finer = (f"{category}.{rest[:length]}" for length in range(len(rest) - 1, 0, -1))
    return (*finer, *([category] if rest else []), *_chapter_range(category, system))


def _pcs_ancestors(code: str) -> tuple[str, ...]:
    """Body part, root operation, body system and section: the characters that number the tables of PCS."""
    return tuple(code[:length] for length in (4, 3, 2, 1) if length < len(code))


def _icdo3_ancestors(code: str) -> tuple[str, ...]:
    """The code without its qualifier, without its grade, the histology, and the group."""
    shorter = (code.removesuffix("/H"), code[:6], code[:4])
    return (*dict.fromkeys(node for node in shorter if node != code), *_chapter_range(code[:3], "icdo3"))


def _listed_names(node: str, *, system: str) -> tuple[str, ...]:
    code = node.replace(".", "")
    name = _chapter_name(node, system) or title(code, system)
    return (name, *filter(None, [short_titles(system).get(code)]))


JOINED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"icd9": ("icd9-diagnosis", "icd9-procedure"), "icd10": ("icd10cm", "icd10pcs")}
)
SYSTEMS: Mapping[str, System] = MappingProxyType(
    {
        "icd9-diagnosis": System(
            written=re.compile(r"\d{3}(\.\d{1,2})?|V\d\d(\.\d{1,2})?|E\d{3}(\.\d)?", re.ASCII),
            rewrite=_rewrite_diagnosis,
            category=_before_dot,
            ancestors=partial(_dotted_ancestors, system="icd9-diagnosis"),
            names=partial(_listed_names, system="icd9-diagnosis"),
        ),
        "icd9-procedure": System(
            written=re.compile(r"\d\d(\.\d{1,2})?", re.ASCII),
            rewrite=partial(_with_zeros, lead=2, system="icd9-procedure"),
            category=_before_dot,
            ancestors=partial(_dotted_ancestors, system="icd9-procedure"),
            names=partial(_listed_names, system="icd9-procedure"),
        ),
        "icd10cm": System(
            written=re.compile(r"[A-Z][0-9A][0-9AB](\.[0-9A-Z]{1,4})?"),
            rewrite=partial(_dotted, lead=3),
            category=_before_dot,
            ancestors=tabular_ancestors,
            names=tabular_names,
        ),
        "icd10pcs": System(
            # PCS has no letters I and O; four characters name a body part whose approach is not told
            written=re.compile(r"[0-9B-DF-HX]([0-9A-HJ-NP-Z]{0,3}|[0-9A-HJ-NP-Z]{6})"),
            rewrite=_rewrite_pcs,
            category=lambda code: code[0],
            ancestors=_pcs_ancestors,
            names=partial(_listed_names, system="icd10pcs"),
        ),
        "icdo3": System(
            written=re.compile(r"[89]\d{3}(/[012369][1-9]?(/H)?)?", re.ASCII),
            rewrite=_rewrite_icdo3,
            category=lambda code: code[:3],
            ancestors=_icdo3_ancestors,
            names=lambda node: (_chapter_name(node, "icdo3"),),
            hint=" (a morphology such as 8500/3, 8500/31 or 8500/3/H)",
        ),
        "other": System(
            written=re.compile(r".+", re.DOTALL),
            rewrite=str,
            category=str,
            ancestors=lambda code: (),
            names=lambda code: ("",),
        ),
    }
)
