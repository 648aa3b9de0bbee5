"""ICD codes: one way of writing each, what they belong to, and a code book of their official names.

The systems are `icd9-diagnosis`, `icd9-procedure`, `icd10cm`, `icd10pcs` and `icdo3`; `icd9` and `icd10` hold diagnoses
and procedures together, told apart by how they are written; `other` is any list of codes, taken as it stands.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from plant.codes.codebook import CodeBook
from plant.codes.lists import TITLES, chapters, is_known, titles
from plant.codes.systems import JOINED, SYSTEMS, normal_form, single_system
from plant.errors import CodeError, quoted, unknown

KNOWN_SYSTEMS = (*SYSTEMS, *JOINED)


@lru_cache(maxsize=1 << 18)
def normalise(code: str, system: str) -> str:
    """The one way in which the package writes a code, whatever its case, blanks, dot and lost leading zeros."""
    if system not in KNOWN_SYSTEMS:
        raise CodeError(unknown("coding system", system, KNOWN_SYSTEMS))
    written = normal_form(code.strip(), system)
    if written is None:
        raise CodeError(f"{quoted(code) if code.strip() else 'an empty text'} is no code of {system}{_hint(system)}")
    return written


def normalise_all(codes: Sequence[str], system: str) -> list[str]:
    """`normalise` of many codes, each distinct one worked out once."""
    written = {code: normalise(code, system) for code in set(codes)}
    return [written[code] for code in codes]


def chapter(code: str, system: str) -> str:
    """The name of the chapter (PCS: section, ICD-O-3: morphology group) of a code; empty where there is none."""
    code = normalise(code, system)
    single = single_system(code, system)
    category = SYSTEMS[single].category(code)
    return next((found.name for found in chapters(single) if found.holds(category)), "")


def ancestors(code: str, system: str) -> tuple[str, ...]:
    """What a code belongs to, from the nearest to its chapter."""
    code = normalise(code, system)
    return SYSTEMS[single_system(code, system)].ancestors(code)


def family(code: str, system: str) -> str:
    """What the codes that differ in detail only share: a category, an ICD-O-3 histology, a PCS body part.

    A code that is not written as its system writes codes is a family of its own.
    """
    if system == "other" or normal_form(code, system) is None:
        return code
    return {"icdo3": code[:4], "icd10pcs": code[:4]}.get(single_system(code, system), code.partition(".")[0])


def codebook_for(codes: Iterable[str], system: str) -> CodeBook:
    """A code book of these codes, normalised, with the names and ancestors that the packaged lists have for them."""
    distinct = tuple(dict.fromkeys(normalise_all(list(codes), system)))
    paths = [(code, *ancestors(code, system)) for code in distinct]
    singles = {node: single_system(path[0], system) for path in paths for node in path}
    names = {node: SYSTEMS[single].names(node) for node, single in singles.items()}
    return CodeBook(
        system=system,
        codes=distinct,
        descriptions={node: title for node, (title, *_) in names.items() if title},
        synonyms={node: also for node, (title, *others) in names.items() if (also := _synonyms(title, others))},
        parents={node: parent for path in paths for node, parent in pairwise(path)},
    )


def official_list(system: str) -> CodeBook:
    """The whole packaged classification: all complete codes, then the broader ones that are written like codes."""
    singles = [single for single in JOINED.get(system, (system,)) if single in TITLES]
    if not singles:
        raise CodeError(f"there is no packaged list of the codes of {system!r}: name a table of them")
    book = codebook_for([code for one in singles for code in normalise_all(list(titles(one)), one)], system)
    complete = set(book.codes)
    return book.with_codes(node for node in book.descriptions if node not in complete and normal_form(node, system))


def guess_system(codes: Iterable[str]) -> str:
    """The system whose list holds most of these codes, at least half; `other` where none does."""
    distinct = {stripped for code in codes if (stripped := code.strip())}
    shares = {name: _share_known(distinct, name) for name in KNOWN_SYSTEMS if name != "other"}
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] >= 0.5 else "other"


def _share_known(codes: set[str], system: str) -> float:
    found = sum(_is_known(code, system) for code in codes) / max(len(codes), 1)
    return found - 0.02 * (system in JOINED)  # a slip or two among diagnoses do not make a mixture


def _is_known(code: str, system: str) -> bool:
    written = normal_form(code, system)
    if written is None:
        return False
    if system == "icdo3":
        return "/" in code  # no package lists the morphologies, and bare digits could be ICD-9 as well
    return is_known(written.replace(".", ""), single_system(written, system))


def _synonyms(title: str, others: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(others) if name.lower() != title.lower())


def _hint(system: str) -> str:
    if system in JOINED:
        return f"; write its dot, or name the system {' or '.join(JOINED[system])}"
    return SYSTEMS[system].hint
