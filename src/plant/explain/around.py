"""What stands around evidence and changes its meaning: negation, family history, hypothesis.

The cue words are data (`text/languages/`), the language is that of the note itself. Nothing here moves a score: a code
all of whose evidence is denied, or speaks of somebody else, can be left unaccepted; its place in the list stays.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from plant.text.cues import FoundCues, cue_distances, load_cues
from plant.text.folding import fold
from plant.text.language import language_of
from plant.text.tokenizer import Words, tokenize
from plant.types import Prediction, ScoredCode

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "negation": ("negation", "negation_after"),
        "family": ("family",),
        "hypothesis": ("hypothesis", "hypothesis_after"),
    }
)
"""What is told, and the kinds of cue phrases that tell it."""

DENYING = frozenset({"negation", "family"})  # a hypothesis is coded in many hospitals
BORDER = re.compile(r"[.;:!?]\s|\n")


def with_cues(prediction: Prediction, text: str, *, heed: bool = False) -> Prediction:
    """The prediction with the cues around each piece of evidence; `heed` takes back codes that are denied throughout.

    >>> spoken = Evidence(3, 8, "fever", 1.0)
    >>> coded = Prediction("1", (ScoredCode("R50", "", 0.9, True, (spoken,)),))
    >>> found = with_cues(coded, "No fever was noted in the ward")
    >>> found.ranked[0].evidence[0].cues
    ('negation',)
    """
    spans = [(own.start, own.end) for scored in prediction.ranked for own in scored.evidence]
    cues = iter(cues_around(text, spans))
    ranked = (
        replace(scored, evidence=tuple(replace(own, cues=next(cues)) for own in scored.evidence))
        for scored in prediction.ranked
    )
    heeded = (_heeded(scored) if heed else scored for scored in ranked)
    return replace(prediction, ranked=tuple(heeded))


def is_denied(scored: ScoredCode) -> bool:
    """Whether there is evidence of a code, and all of it is denied or speaks of somebody else."""
    return bool(scored.evidence) and all(DENYING.intersection(own.cues) for own in scored.evidence)


def _heeded(scored: ScoredCode) -> ScoredCode:
    return replace(scored, accepted=scored.accepted and not is_denied(scored))


def cues_around(text: str, spans: Sequence[tuple[int, int]], *, language: str = "") -> list[tuple[str, ...]]:
    """For each span of characters what is said of it: some of `KINDS`; none in a language without cue words."""
    words = tokenize(text, keep_numbers=True)
    language = language or language_of(words.forms)
    if not spans or not len(words) or not load_cues(language).kinds:
        return [()] * len(spans)
    folded = [fold(text[start:end]) for start, end in zip(words.starts.tolist(), words.ends.tolist(), strict=True)]
    found = cue_distances(folded, load_cues(language), sentences=np.array(_sentences(text, words), np.int64))
    first = np.searchsorted(words.ends, [start for start, _ in spans], side="right")
    last = np.searchsorted(words.starts, [end for _, end in spans], side="left")
    told = {name: _reached(found, kinds, first, np.maximum(first, last)) for name, kinds in KINDS.items()}
    return [tuple(name for name in KINDS if told[name][place]) for place in range(len(spans))]


def _reached(found: FoundCues, kinds: Sequence[str], first: np.ndarray, last: np.ndarray) -> np.ndarray:
    known = [found.reaches(kind, first, last) for kind in kinds if kind in found.kinds]
    return np.any(known, axis=0) if known else np.zeros(len(first), np.bool_)


def _sentences(text: str, words: Words) -> list[int]:
    """The words at which sentences, or lines, begin."""
    borders = [match.end() for match in BORDER.finditer(text)]
    return sorted({int(place) for place in np.searchsorted(words.starts, borders, side="left") if place < len(words)})
