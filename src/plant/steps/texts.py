"""Text to learn from: what the trainings of a language model and of a transformer share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from plant.data.corpus import Corpus, Documents, Role, take
from plant.data.encode import encode_texts
from plant.data.sources.bare import read_texts
from plant.recipe.schema import Masked, Prepare, Pretrain
from plant.steps.step import Work

NOTES_AT_A_TIME = 1000


@dataclass(frozen=True)
class FurtherText:
    """Files of text that the user adds to that of the corpus; `say` hears what of it is left out."""

    files: tuple[str, ...] = ()
    column: str = ""
    say: Callable[[str], None] = lambda sentence: None

    @property
    def inputs(self) -> tuple[str, ...]:
        """What decides the text: the files, and the column that is read of them."""
        return (*self.files, f"column {self.column}") if self.files else ()


def needs_text(section: Pretrain | Masked, further: FurtherText) -> tuple[str, ...]:
    """What is needed to learn from text; the corpus as a whole only where its held-out text is read, or kept out."""
    corpus = ("corpus",) if section.held_out_text or further.files else ()
    return ("view", "unlabelled", "choosing", *corpus)


def text_to_learn(work: Work, section: Pretrain | Masked, further: FurtherText) -> list[Documents]:
    """The text besides that of the fitted notes: unlabelled, the user's, and held-out where the section says so."""
    own = [work["unlabelled"]] if not section.held_out_text else more_text(work["corpus"], section)
    if not further.files:
        return own
    return [*own, *_read(further, section, work["corpus"], work.section(Prepare))]


def text_to_measure(work: Work, section: Pretrain | Masked) -> Documents | None:
    """The choosing notes, on which a language model is measured, unless it learned from them."""
    documents: Documents = work["choosing"].documents
    return None if section.held_out_text or not len(documents) else documents


def more_text(corpus: Corpus, section: Pretrain | Masked) -> list[Documents]:
    """The corpus's text besides the fitted notes: unlabelled, and held-out only where the recipe says so."""
    roles = [Role.UNLABELLED, *([Role.CHOOSE, Role.REPORT, Role.UNUSED] if section.held_out_text else [])]
    return [take(corpus.documents, np.flatnonzero(corpus.role == role)) for role in roles]


def without_held_out(more: Documents, corpus: Corpus) -> tuple[Documents, int]:
    """Further text without the documents that are held-out notes word for word, and how many those were."""
    held_out = np.flatnonzero(~np.isin(corpus.role, (Role.FIT, Role.UNLABELLED)))
    known = {corpus.documents.tokens_of(int(row)).tobytes() for row in held_out}
    new = [row for row in range(len(more)) if more.tokens_of(row).tobytes() not in known]
    return take(more, np.array(new, np.intp)), len(more) - len(new)


def _read(further: FurtherText, section: Pretrain | Masked, corpus: Corpus, prepare: Prepare) -> Iterator[Documents]:
    """The texts of files as documents of the corpus's vocabulary, without held-out notes unless the recipe says so."""
    for name in further.files:
        repeated, notes = 0, read_texts(name, text_column=further.column)
        while some := list(islice(notes, NOTES_AT_A_TIME)):
            encoded = encode_texts([note.text for note in some], corpus.vocab, prepare)
            kept, found = (encoded, 0) if section.held_out_text else without_held_out(encoded, corpus)
            repeated += found
            yield kept
        if repeated:
            further.say(f"{name}: {repeated:,} texts left out, they are held-out notes of the corpus")
