"""Made-up notes with marked mentions, for tests of readers."""

import random
from collections.abc import Sequence

import numpy as np

from plant.candidates.mentions import Mention, mentions_of
from plant.candidates.words import NoteWords, stemmer, words_of

STEM = stemmer("spanish")
TUMOURS = ("carcinoma ductal", "carcinoma ductal infiltrante", "Linfoma B", "SE", "adenocarcinomas", "sarcoma de Ewing")
FILLERS = ("se observa", "en la mama", "sin otros hallazgos", "de 3 cm", "tras la cirugía", "no hay carcinoma previo")


def marked_text(seed: int) -> tuple[str, list[tuple[int, int]]]:
    """A text of a few sentences, and the characters of its mentions; not every wording is marked where it stands."""
    draw, text, spans = random.Random(seed), "", []
    for _ in range(draw.randint(3, 7)):
        text += draw.choice(FILLERS).capitalize() + " "
        for _ in range(draw.randint(0, 2)):
            tumour = draw.choice(TUMOURS)
            if draw.random() < 0.8:
                spans.append((len(text), len(text) + len(tumour)))
            text += tumour + " " + draw.choice(FILLERS) + " "
        text += draw.choice((". ", ".\n"))
    return text, spans


def marked_note(seed: int) -> tuple[NoteWords, tuple[Mention, ...]]:
    """The words of a made-up note and what is marked in it."""
    text, spans = marked_text(seed)
    words = words_of(text, STEM)
    return words, mentions_of(words, np.array(spans, np.int32).reshape(-1, 2), np.zeros(len(spans), np.int32))


def marked_notes(n_notes: int) -> tuple[Sequence[NoteWords], Sequence[tuple[Mention, ...]]]:
    """Some made-up notes, all different."""
    rows = [marked_note(seed) for seed in range(n_notes)]
    return [words for words, _ in rows], [mentions for _, mentions in rows]
