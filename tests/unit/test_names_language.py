"""Names of codes in another language than the notes are noticed, told, and believed if the choosing notes say so."""

import doctest
from pathlib import Path

import pytest

import plant.text.language
from plant.cli.main import main
from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import Corpus
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Prepare
from plant.steps.names import believes_names, decide, foreign_names, in_doubt
from plant.store.artifact import read_manifest
from plant.systems.coder import FittedCoder
from plant.types import Note

CODES = ["I10", "E11.9", "J18.9", "M54.5", "R51", "K35.80", "N39.0", "J45.909", "F32.9", "S62.101A"]
ENGLISH = [f"disease of the body part number {letter} with pain and fever in the night" for letter in "abcdefghij"]
SPANISH = [f"enfermedad de la parte del cuerpo con dolor y fiebre en la noche {letter}" for letter in "abcdefghij"]


def notes(names: list[str]) -> list[Note]:
    found = []
    for number in range(60):
        code = number % len(CODES)
        text = f"El paciente acude a la consulta con {names[code]} y se le da de alta en el día {number}"
        found.append(Note(f"n{number}", text, (CODES[code],), ("train", "train", "train", "dev", "test")[number // 12]))
    return found


def corpus(names: list[str]) -> Corpus:
    book = CodeBook("icd10cm", tuple(CODES), dict(zip(CODES, names, strict=True)))
    return build_corpus(notes(SPANISH), book, Prepare(min_count=1))


def test_foreign_names_are_noticed_and_own_names_are_not() -> None:
    found = foreign_names(corpus(ENGLISH))
    assert found is not None
    assert (found.notes, found.names) == ("spanish", "english")
    assert foreign_names(corpus(SPANISH)) is None


def test_the_example_is_true() -> None:
    assert doctest.testmod(plant.text.language).failed == 0


@pytest.mark.parametrize(
    ("recipe", "believes"),
    [
        ("interaction", True),
        ("plant-interaction", True),
        ("dictionary", True),
        ("plant-cnn", True),
        ("tfidf", False),
        ("caml-small", False),
    ],
)
def test_recipes_that_look_for_names_are_known(recipe: str, believes: bool) -> None:
    assert believes_names(load_recipe(recipe)) == believes
    assert not believes_names(load_recipe(recipe, ["naming.book=false"]))
    assert in_doubt(corpus(ENGLISH), load_recipe(recipe)) == believes


@pytest.mark.parametrize("right", [True, False])
def test_the_choosing_notes_decide(right: bool) -> None:
    """Names that stand in the notes are kept whatever their language; a book that misleads is passed over."""
    words = [f"the sign of {letter * 5}" for letter in "abcdefghij"]
    book = words if right else [*words[1:], words[0]]
    found = build_corpus(
        notes(words), CodeBook("icd10cm", tuple(CODES), dict(zip(CODES, book, strict=True))), Prepare(min_count=1)
    )
    recipe, fits = load_recipe("dictionary", ["naming.mined=false"]), []

    def fit(one, way: str) -> FittedCoder:  # type: ignore[no-untyped-def]
        fits.append(way)
        return Coder(one).fit(found).fitted

    decided = decide(found, recipe, fit)
    assert fits == ["with-names", "without-names"]
    assert decided.recipe.naming.book == (decided.with_names >= decided.without_names)
    assert not right or decided.recipe.naming.book


def test_a_run_tells_decides_and_does_not_do_it_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f'{note.id},"{note.text}",{note.codes[0]},{note.split}' for note in notes(SPANISH)]
    (tmp_path / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    names = [f"{code}\t{name}" for code, name in zip(CODES, ENGLISH, strict=True)]
    (tmp_path / "book.tsv").write_text("\n".join(["code\tdescription", *names]) + "\n")
    book = ("--codebook", str(tmp_path / "book.tsv"))
    said = []
    for _ in range(2):
        with pytest.raises(SystemExit, match="0"):
            main(["run", str(tmp_path / "notes.csv"), "--recipe", "dictionary", "--out", str(tmp_path / "run"), *book])
        said.append(capsys.readouterr().err)
    assert "the notes are spanish, the names of their codes english" in said[0]
    assert "MAP of the choosing notes" in said[0]
    assert "coder: already there, unchanged" in said[1]
    assert read_manifest(tmp_path / "run" / "coder", "coder").recipe["naming"]["book"] in (True, False)
