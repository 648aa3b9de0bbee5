"""How notes are read and coded: what `plant predict` was asked for, as data that a worker can be sent."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plant.recipe.schema import Prepare
from plant.types import Note, Prediction

if TYPE_CHECKING:
    from plant.coder import Coder


@dataclass(frozen=True)
class Coding:
    """All that decides what is written for a note, besides the coder; equal codings give equal bytes."""

    form: str = "jsonl"
    top: int = 15
    evidence: bool = True
    explainer: str = ""
    cues: bool = False
    heed_cues: bool = False
    int8: bool = False
    text_column: str = ""
    id_column: str = ""
    skip_bad: bool = False


def opened_coder(folder: str, coding: Coding) -> "Coder":
    """The coder of a folder, in the form that is asked for."""
    from plant.coder import Coder

    coder = Coder.load(folder)
    return coder.quantized() if coding.int8 else coder


def coded(coder: "Coder", notes: Iterable[Note], coding: Coding) -> Iterator[tuple[Note, Prediction]]:
    """Notes with their predictions, with what stands around their evidence where that is asked for."""
    read: deque[Note] = deque()
    for prediction in coder.predict_stream(
        _noted(notes, read), top=coding.top, evidence=coding.evidence, explainer=coding.explainer
    ):
        note = read.popleft()
        if coding.cues or coding.heed_cues:
            from plant.explain.around import with_cues

            prediction = with_cues(prediction, note.text, heed=coding.heed_cues)
        yield note, prediction


def _noted(notes: Iterable[Note], read: "deque[Note]") -> Iterator[Note]:
    for note in notes:
        read.append(note)
        yield note


@dataclass
class Cut:
    """What a coder cuts off the notes that pass by."""

    prepare: Prepare
    tokens: int = 0
    notes: int = 0

    def watched(self, notes: Iterable[Note]) -> Iterator[Note]:
        """The same notes."""
        from plant.data.encode import words_beyond

        for note in notes:
            beyond = words_beyond(note.text, self.prepare)
            self.tokens += beyond
            self.notes += beyond > 0
            yield note
