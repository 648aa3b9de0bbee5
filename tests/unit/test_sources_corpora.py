"""The real corpora: their counts equal the published ones."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from plant.data.sources import Source, SourceOptions, checked, open_source
from plant.types import Note

PUBLISHED = {
    "cantemist": {"train": (501, 493), "dev1": (250, 338), "dev2": (250, 334)},
    "codiesp_d": {"train": (500, 1767), "dev": (250, 1158)},
    "codiesp_p": {"train": (500, 563), "dev": (250, 375)},
}
SYSTEMS = {"cantemist": "icdo3", "codiesp_d": "icd10cm", "codiesp_p": "icd10pcs"}

pytestmark = pytest.mark.corpora


@cache
def read(folder: Path, language: str = "") -> tuple[Source, list[Note]]:
    """A corpus that is read once for all tests."""
    source = open_source(str(folder), options=SourceOptions(language=language))
    return source, list(checked(source.notes()))


@pytest.mark.parametrize("name", PUBLISHED)
def test_notes_and_codes_are_as_many_as_published(corpora: Path, name: str) -> None:
    notes: Counter[str] = Counter()
    codes: dict[str, set[str]] = {}
    for note in read(corpora / name)[1]:
        notes[note.split] += 1
        codes.setdefault(note.split, set()).update(note.codes)
    assert {split: (notes[split], len(codes[split])) for split in PUBLISHED[name]} == PUBLISHED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_code_book_describes_every_code(corpora: Path, name: str) -> None:
    source, notes = read(corpora / name)
    assert source.codebook is not None
    assert source.codebook.system == SYSTEMS[name]
    assert {code for note in notes for code in note.codes} <= set(source.codebook.codes)


def test_all_mentions_of_cantemist_are_read(corpora: Path) -> None:
    spans = [span for note in read(corpora / "cantemist")[1] for span in note.evidence.values()]
    assert sum(map(len, spans)) == 12_397


def test_notes_without_codes_are_kept(corpora: Path) -> None:
    bare = Counter(note.split for note in read(corpora / "codiesp_p")[1] if not note.codes)
    assert bare == {"train": 65, "dev": 28}
    [lonely] = [n for n in read(corpora / "cantemist")[1] if not n.codes and n.split != "background"]
    assert lonely.split == "dev1"


def test_no_text_of_the_background_is_a_note_to_be_tested_on(corpora: Path) -> None:
    source, notes = read(corpora / "cantemist")
    texts: dict[bool, set[str]] = {True: set(), False: set()}
    for note in notes:
        texts[note.split == "background"].add(" ".join(note.text.split()))
    assert not texts[True] & texts[False]
    assert sum(source.facts.values()) == 4


def test_the_english_texts_of_codiesp_are_others_than_the_spanish(corpora: Path) -> None:
    spanish, english = (
        {note.id: note.text for note in read(corpora / "codiesp_d", language)[1]} for language in ("", "en")
    )
    assert spanish.keys() == english.keys()
    assert not any(spanish[identifier] == english[identifier] for identifier in spanish)
