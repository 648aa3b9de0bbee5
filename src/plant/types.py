"""What crosses the borders between rooms: notes, spans, predictions. No torch, no numpy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Progress = Callable[[str, int, int | None], None]
"""Called as `progress(what, done, total)` while long work goes on; `total` is None where it is not known."""


def silent(what: str, done: int, total: int | None) -> None:
    """A `Progress` that tells nobody."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters `start` to `end` (excluded) of a text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Note:
    """One document with its codes; `evidence` holds the spans that human coders marked for a code.

    >>> note = Note("7", "a dry cough", codes=("R05",), evidence={"R05": (Span(6, 11),)})
    >>> note.text[6:11]
    'cough'
    """

    id: str
    text: str
    codes: tuple[str, ...] = ()
    split: str = ""
    group: str = ""  # the patient: notes of one group never part into different splits
    evidence: Mapping[str, tuple[Span, ...]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Words that speak for a code, and how much.

    Coders that judge whole phrases also say `why` the words mean the code, and its `rivals`: other codes that they were
    taken to mean, best first. `cues` say what stands around the words, such as a negation, where that was looked for.
    """

    start: int
    end: int
    text: str
    weight: float
    why: str = ""
    rivals: tuple[str, ...] = ()
    cues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredCode:
    """A code of a prediction; `accepted` says whether its probability passes the threshold chosen on dev."""

    code: str
    description: str
    probability: float
    accepted: bool
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """The codes of one note, best first."""

    id: str
    ranked: tuple[ScoredCode, ...]

    @property
    def accepted(self) -> tuple[str, ...]:
        """The codes that pass their thresholds, best first."""
        return tuple(scored.code for scored in self.ranked if scored.accepted)
