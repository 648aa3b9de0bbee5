"""Grades and stages of tumours in words: "grado II", "GII-GIII", "Gleason 4+3", "Fuhrman 4", "poco diferenciado".

Each is read as a value of its scale and, where the scale has one, as the sixth digit of an ICD-O-3 morphology:

| scale | values | ICD-O-3 grade |
|---|---|---|
| `grade` (grado, G, nuclear, histological) | 1-4 | the same |
| `fuhrman` | 1-4 | the same |
| `differentiation` | well 1, moderately 2, poorly 3, undifferentiated 4 | the same |
| `tier` | low 1, intermediate 2, high 4 | the same |
| `gleason` (the sum) | 2-10 | up to 6: 1, 7: 2, from 8 on: 3 |
| `grade group` (ISUP) | 1-5 | 1: 1, 2 and 3: 2, 4 and 5: 3 |
| `stage` | 0-4 | none |
| `spread` (M of a TNM) | M0 0, M1 1 | none |

Gleason: ICD-O-3's older rule reads 2-4 as 1, 5-7 as 2, 8-10 as 3. The two differ for sums of 5 and 6. The newer one is
taken because coders do so: of the marked mentions of CANTEMIST train and dev1 with a Gleason sum of 5 or 6, six of six
have grade 1. Low grade is 1 there (28 of 29 graded mentions), where registries of the US would take 2; high grade is 4
(116 of 118).

Of a range ("GII-GIII", "III/IV", "moderately to poorly differentiated") the higher counts, as ICD-O-3 rules. "2/3" in
arabic numbers is grade 2 of three.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType

ROMAN: Mapping[str, int] = MappingProxyType({"i": 1, "ii": 2, "iii": 3, "iv": 4})
SELF: Mapping[int, int] = MappingProxyType({value: value for value in range(1, 5)})
DIGITS: Mapping[str, Mapping[int, int]] = MappingProxyType(
    {
        "grade": SELF,
        "fuhrman": SELF,
        "differentiation": SELF,
        "tier": SELF,
        "gleason": MappingProxyType({value: 1 if value <= 6 else 2 if value == 7 else 3 for value in range(2, 11)}),
        "grade group": MappingProxyType({1: 1, 2: 2, 3: 2, 4: 3, 5: 3}),
        "stage": MappingProxyType({}),
        "spread": MappingProxyType({}),
    }
)


@dataclass(frozen=True)
class Grade:
    """A grade or stage in words [first, last) of a note; `lowest` differs from `value` where a range is written."""

    first: int
    last: int
    scale: str
    value: int
    lowest: int

    @property
    def digit(self) -> str:
        """The digit of an ICD-O-3 morphology that it means; empty where it means none."""
        found = DIGITS[self.scale].get(self.value)
        return "" if found is None else str(found)

    @property
    def metastatic(self) -> bool:
        """Whether it says that the tumour has spread to other organs: stage IV, M1."""
        return (self.scale, self.value) in (("stage", 4), ("spread", 1))


def find_grades(words: Sequence[str]) -> tuple[Grade, ...]:
    """The grades and stages among folded words, in reading order; words may be split at digits and marks or not.

    >>> find_grades("carcinoma ductal g2".split())
    (Grade(first=2, last=3, scale='grade', value=2, lowest=2),)
    """
    text = " ".join(words)
    starts = [0, *accumulate(len(word) + 1 for word in words)]
    taken: list[tuple[int, int]] = []
    found: list[Grade] = []
    for scale, begin, end, values in _readings(text):
        first, last = bisect_left(starts, begin), bisect_left(starts, end + 1)
        whole = starts[first] == begin and last < len(starts) and starts[last] == end + 1  # no part of a word
        if whole and all(end <= other or begin >= stop for other, stop in taken):
            taken.append((begin, end))
            found.append(Grade(first, last, scale, max(values), min(values)))
    return tuple(sorted(found, key=lambda grade: grade.first))


def _readings(text: str) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    """Scale, characters and values of all that the patterns read, the surest pattern first."""
    for scale, needed, pattern, values_of in PATTERNS:
        if not any(letters in text for letters in needed):
            continue  # most notes have few of these: looking for letters is far quicker than for a pattern
        for match in pattern.finditer(text):
            yield scale, match.start(), match.end(), values_of(match)


def _number(text: str) -> int:
    return ROMAN.get(text) or int(text)


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    """One value or the ends of a range; an arabic number behind a slash is the number of grades."""
    low, mark, high = match["low"], (match["mark"] or "").strip(), match["high"]
    share = mark == "/" and high is not None and high.isdigit()
    return (_number(low),) if high is None or share else (_number(low), _number(high))


def _told(match: re.Match[str]) -> tuple[int, ...]:
    return (int(match["told"]),)


def _sum(match: re.Match[str]) -> tuple[int, ...]:
    return (int(match["first"]) + int(match["second"]),)


def _differentiation(match: re.Match[str]) -> tuple[int, ...]:
    return _named(match, _DIFFERENTIATED)


def _tier(match: re.Match[str]) -> tuple[int, ...]:
    return _named(match, _TIERS)


def _named(match: re.Match[str], values: Mapping[str, int]) -> tuple[int, ...]:
    """The values of the words in all groups of a match, by how these begin."""
    written = [group for group in match.groups() if group]
    return tuple(value for group in written for start, value in values.items() if group.startswith(start))


_NUMBER = r"(?:[1-4]|iv|i{1,3})"
_RANGE = rf"(?P<low>{_NUMBER})(?:(?P<mark> ?[-/] ?| a | to | y | and )(?:g ?)?(?P<high>{_NUMBER}))?\b(?! ?[+.,] ?\d)"
_SUBSTAGE = r"(?:(?<=\d) [bc]\b|[abcs]\d?)?"
_STAGES = rf"(?P<low>0|{_NUMBER}){_SUBSTAGE}(?:(?P<mark> ?[-/] ?)(?P<high>{_NUMBER}){_SUBSTAGE})?\b"
_MARK = r"(?: ?[:=(])?"
_FILLER = (
    r"(?: (?:de|del|of|score|sum|suma|combinado|combined|total|patron|pattern|indice|grado|grade|nuclear|fue|was))*"
)
_FUHRMAN = r"f(?:uhr|urh|ur)mann?"
_KIND = r"(?: (?:histologic(?:o|al)?|nuclear|tumor(?:al)?|global|de malignidad|de diferenciacion|who|oms))*"
_STAGED = r"(?: (?:clinico|patologico|clinical|pathologic(?:al)?|tnm|figo|ajcc|ann arbor|de ann arbor))*"
_BY = "[acpry]{0,3}"  # clinically, pathologically, after treatment
_TUMOUR = rf"{_BY}t ?(?:[0-4x]|is) ?[a-d]?"
_NODES = rf"{_BY}n ?[0-3x] ?[a-d]?(?: ?\( ?\d+ ?/ ?\d+ ?\))?"
_SPREAD = rf"{_BY}m ?(?P<told>[01])(?: ?[a-d]\b)?"
_HOW = r"(bien|buena|moderada(?:mente)?|poc[oa]|pobre(?:mente)?|mala?|escasa(?:mente)?)"
_HOW_IN_ENGLISH = r"(well|moderate(?:ly)?|poor(?:ly)?)"
_DIFFERENTIATED: Mapping[str, int] = MappingProxyType(
    {"bien": 1, "buen": 1, "well": 1, "moder": 2, "poc": 3, "pobre": 3, "poor": 3, "mal": 3, "escas": 3,
     "indif": 4, "undif": 4}
)  # fmt: skip
_TIERS: Mapping[str, int] = MappingProxyType({"bajo": 1, "low": 1, "inter": 2, "alto": 4, "high": 4})

Reader = Callable[[re.Match[str]], tuple[int, ...]]
PATTERNS: tuple[tuple[str, tuple[str, ...], re.Pattern[str], Reader], ...] = tuple(
    (scale, needed, re.compile(pattern), reader)  # a text that the pattern reads has some of the needed letters
    for scale, needed, pattern, reader in (
        # "gleason 7", "gleason 7 (3+4)"; "gleason 4 3" is a sum whose plus the words have lost
        (
            "gleason",
            ("gleason",),
            rf"\bgleason{_FILLER}{_MARK} ?(?P<told>10|[6-9]|[2-5](?! ?\+| [1-5]\b))\b"
            r"(?: ?[(/:]? ?[1-5](?: ?\+ ?| )[1-5]\b(?: ?\))?)?",
            _told,
        ),
        (
            "gleason",
            ("gleason",),
            rf"\bgleason{_FILLER}{_MARK} ?(?P<first>[1-5])(?: ?\+ ?| )(?P<second>[1-5])\b"
            r"(?: ?[=(] ?(?:10|[2-9])\b(?: ?\))?)?",
            _sum,
        ),
        (
            "grade group",
            ("isup", "grade group", "grupo"),
            rf"\b(?:isup|grade group|grupo de grado|grupo grado)(?: (?:grado|grade|isup))*{_MARK} ?(?P<group>[1-5])\b",
            lambda match: (int(match["group"]),),
        ),
        ("fuhrman", ("rman", "rhman"), rf"\b{_FUHRMAN}{_FILLER}{_MARK} ?{_RANGE}", _numbers),
        (
            "fuhrman",
            ("rman", "rhman"),
            rf"\b(?:grado|grade){_KIND} {_RANGE}(?: ?\()?(?: (?:de|segun|of|la|escala))* ?{_FUHRMAN}",
            _numbers,
        ),
        (
            "differentiation",
            ("diferencia",),
            rf"\b{_HOW}(?: ?(?:a|o|y|-|/) {_HOW})? diferencia(?:d[oa]s?|cion)\b",
            _differentiation,
        ),
        (
            "differentiation",
            ("differentiat",),
            rf"\b{_HOW_IN_ENGLISH}(?: ?(?:to|or|and|-|/) {_HOW_IN_ENGLISH})?(?: ?-)? differentiat(?:ed|ion)\b",
            _differentiation,
        ),
        ("differentiation", ("indif", "undif"), r"\b(indiferenciad[oa]s?|undifferentiated)\b", _differentiation),
        (
            "tier",
            ("grad",),
            r"\b(alto|bajo) grado\b|\bgrado (alto|bajo|intermedio)\b|\b(high|low|intermediate)(?: ?-)? grade\b",
            _tier,
        ),
        ("grade", ("grad", "gr.", "gr ."), rf"\b(?:grados?|grades?|gr ?\.){_KIND}{_MARK} ?{_RANGE}", _numbers),
        ("spread", ("m0", "m1", "m 0", "m 1"), rf"\b{_TUMOUR} ?,? ?{_NODES} ?,? ?{_SPREAD}", _told),
        ("spread", ("m0", "m1", "m 0", "m 1"), rf"\b{_NODES} ?,? ?{_SPREAD}", _told),
        ("spread", ("m0", "m1", "m 0", "m 1"), rf"(?<![\d.,] )\b{_SPREAD}", _told),  # "3 cm 1" is no M1
        ("stage", ("estadio", "stage"), rf"\b(?:estadios?|stages?){_STAGED}{_MARK} ?{_STAGES}", _numbers),
        ("grade", ("g",), rf"\bg ?-? ?(?!i\b(?! ?[-/] ?g?i)){_RANGE}", _numbers),  # "GI" alone is gastrointestinal
    )
)
