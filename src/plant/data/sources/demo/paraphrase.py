"""Other ways of saying the official description of a code."""

import re
from collections.abc import Iterable, Sequence

Rewrite = tuple[re.Pattern[str], str]

MOST_NAMES = 14
# What coders write and clinicians do not; in this order.
OFFICIALESE = tuple(
    re.compile(pattern)
    for pattern in (
        r", initial encounter.*$",
        r"\s*\[[^\]]*\]",
        r"\s*\([^)]*\)",
        r" NOS$| NEC$",
        r", not elsewhere classified",
        r", not specified as \w+",
        r", unspecified(?: (?:site|severity|degree|type|bone))?",
        r"\b[Uu]nspecified (?:part of )?",
        r",? ?uncomplicated$|,? without complications?$|,? not having achieved remission$",
        r",? (?:except|including) .*$",
        r"^Other ",
        r" without foreign body",
    )
)
HARMLESS_TAIL = re.compile(r",? without (?!.*\bwith\b).*$")
PROPER = re.compile(
    r"^(?:\w+'s|Von|Takotsubo|Lyme|Wernicke|Klebsiella|Pseudomonas|Streptococcus|Staphylococcus|Enterococcus|Hodgkin|"
    r"Lewy|Achilles|Mycobacterium|Roux-en-Y|Crohns|Escherichia|Norwalk|Norovirus|B|II|I|Type)$"
)


def names_from(description: str, terms: Iterable[str], rewrites: Sequence[Rewrite]) -> tuple[str, ...]:
    """What clinicians may write for a description and its inclusion terms, plainest first."""
    plain = [simplified(text) for text in (description, *filter(_usable, terms))]
    shorter = [HARMLESS_TAIL.sub("", text) for text in plain]
    said = list(dict.fromkeys(plain + shorter))
    for text in said[:]:
        once = _rewritten(text, rewrites)
        said += once
        said += [again for text in once for again in _rewritten(text, rewrites)]
    return tuple(dict.fromkeys(spoken(text) for text in said if text))[:MOST_NAMES]


def simplified(text: str) -> str:
    """The text without the qualifiers that only a code list needs."""
    for pattern in OFFICIALESE:
        text = pattern.sub("", text)
    return re.sub(r"\s+", " ", text).strip(" ,")


def spoken(text: str) -> str:
    """Lower case, as within a sentence, except for names, acronyms and what holds a digit."""
    return " ".join(word if _keeps_case(word) else word.lower() for word in text.split(" "))


def _rewritten(text: str, rewrites: Sequence[Rewrite]) -> list[str]:
    return [pattern.sub(replacement, text) for pattern, replacement in rewrites if pattern.match(text)]


def _usable(term: str) -> bool:
    return not re.search("classifiable|COVID", term) and len(term) <= 70


def _keeps_case(word: str) -> bool:
    return bool(PROPER.match(word)) or any(letter.isupper() or letter.isdigit() for letter in word[1:])
