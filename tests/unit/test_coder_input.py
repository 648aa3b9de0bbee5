"""What a caller hands to a coder wrongly is one clear line with its place, and never a text."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.errors import InputError, PlantError, RecipeError
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Recipe
from plant.types import Note

TEXTS = [f"the {'cough' if number % 2 else 'fever'} of secretperson {number}" for number in range(20)]
CODES = [["R05"] if number % 2 else ["R50", "I10"] for number in range(20)]


def fitted(**options: Any) -> Coder:
    return Coder("prior", "prepare.min_count=1").fit(TEXTS, CODES, **{"choose": 0.2, **options})


@pytest.fixture(scope="module")
def coder() -> Coder:
    return fitted()


@pytest.mark.parametrize(
    ("texts", "codes", "message"),
    [
        ("abc", CODES, "texts must be a list of texts, not one string: wrap it in a list"),
        (3, CODES, "texts must be a list of texts, not int"),
        ({"secretperson": 1}, CODES, "texts must be a list of texts, not dict"),
        ([*TEXTS[:3], 7, *TEXTS[4:]], CODES, "texts[3] is not a string but int"),
        ([*TEXTS[:3], None, *TEXTS[4:]], CODES, "texts[3] is not a string but NoneType"),
        (TEXTS, "R05", "codes must be a list of collections of codes, one for each text, not one string"),
        (TEXTS, ["R05"] * 20, "codes[0] is one string, not a collection of codes: wrap it in a list"),
        (TEXTS, [*CODES[:19], None], "codes[19] is not a collection of codes but NoneType"),
        (TEXTS, [*CODES[:19], [401]], "codes[19] has a code that is not a string but int"),
        (TEXTS, [*CODES[:19], [" "]], "codes[19] has an empty code"),
        (TEXTS, CODES[:4], "20 texts but 4 collections of codes"),
    ],
)
@pytest.mark.parametrize("verb", ["fit", "score"])
@pytest.mark.usefixtures("unchecked")
def test_wrong_texts_and_codes_are_told_by_place(coder: Coder, verb: str, texts: Any, codes: Any, message: str) -> None:
    call: Callable[..., object] = Coder("prior").fit if verb == "fit" else coder.score
    with pytest.raises(InputError, match=re.escape(message)) as told:
        call(texts, codes)
    assert "secretperson" not in str(told.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ["a"]}, "20 texts but 1 groups"),
        ({"groups": []}, "20 texts but 0 groups"),
        ({"groups": "abcdefghijklmnopqrst"}, "groups must be a list of strings, one for each text, not one string"),
        ({"groups": [None] * 20}, "groups[0] is not a string but NoneType"),
        ({"choose": 2}, "choose must be a share of the notes, at least 0 and below 1, not 2"),
        ({"choose": "dev"}, "choose must be a share of the notes"),
        ({"codebook": "codes.tsv"}, "codebook must be a CodeBook"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_options_of_fit_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        fitted(**options)


def test_generators_arrays_and_numbered_groups_are_taken() -> None:
    coder = Coder("prior", "prepare.min_count=1")
    coder.fit((text for text in TEXTS), iter(CODES), groups=np.arange(20), choose=0.2)
    assert [found.id for found in coder.predict(np.array(TEXTS[:2]), ids=np.array([5, 6]))] == ["5", "6"]
    assert coder.predict_proba(text for text in TEXTS).shape == (20, 3)


def test_blanks_around_codes_make_no_further_class(coder: Coder) -> None:
    blank = Coder("prior", "prepare.min_count=1").fit(
        TEXTS, [[f" {code}\t" if n % 3 else code for code in row] for n, row in enumerate(CODES)], choose=0.2
    )
    assert blank.classes_ == coder.classes_ == ("I10", "R05", "R50")
    assert coder.score(TEXTS, [[f" {code} " for code in row] for row in CODES]) == coder.score(TEXTS, CODES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda coder: coder.predict("abc"), "wrap it in a list"),
        (lambda coder: coder.predict_proba("abc"), "wrap it in a list"),
        (lambda coder: coder.predict([None]), "texts[0] is not a string but NoneType"),
        (lambda coder: coder.predict(TEXTS, top=-1), "top must be a whole number, 0 or more, not -1"),
        (lambda coder: coder.predict(TEXTS, top=2.5), "top must be a whole number, 0 or more, not 2.5"),
        (lambda coder: coder.predict(TEXTS, ids=["a"]), "20 texts but 1 ids"),
        (lambda coder: coder.predict(TEXTS[:2], ids=["a", "a"]), "2 texts have the id 'a'"),
        (lambda coder: coder.predict(TEXTS[:2], ids="ab"), "ids must be a list"),
        (lambda coder: coder.explain(3, "I10"), "the text is not a string but int"),
        (lambda coder: list(coder.predict_stream(TEXTS)), "a Note is expected, not str; predict takes texts"),
        (lambda coder: list(coder.predict_stream([Note("n", None)])), "the text of note 'n' is not a string"),
        (lambda coder: coder.predict(["a", "a\ud800b"]), "texts[1] has half a surrogate pair"),
        (lambda coder: coder.explained("abc"), "a Note is expected, not str"),
        (lambda coder: coder.explained(Note("n", "cough"), codes="R05"), "codes must be a list of codes"),
        (lambda coder: coder.add_codes("none.tsv"), "none.tsv"),
        (lambda coder: coder.add_codes(["I11"]), "add_codes takes a CodeBook or the path of a code file, not list"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_questions_are_told(coder: Coder, call: Callable[[Coder], object], message: str) -> None:
    with pytest.raises(PlantError, match=re.escape(message)):
        call(coder)


def test_a_file_of_codes_is_read_where_a_book_is_taken(tmp_path: Path) -> None:
    (tmp_path / "add.tsv").write_text("code\tdescription\nJ45\tasthma\n")
    book = CodeBook("other", ("I10", "R05", "R50"), {"I10": "hypertension", "R05": "cough", "R50": "fever"})
    recipe = ("interaction", "fit.epochs=1", "prepare.min_count=1", "decoder.size=4")
    coder = Coder(*recipe).fit(TEXTS, CODES, codebook=book, choose=0.2)
    assert "J45" in coder.add_codes(str(tmp_path / "add.tsv")).classes_


@pytest.mark.usefixtures("unchecked")
def test_a_coder_takes_recipes_and_nothing_else(tmp_path: Path) -> None:
    assert Coder(Recipe(), "fit.epochs=1").recipe.fit.epochs == 1
    assert Coder(load_recipe("plant")).recipe == load_recipe("plant")
    (tmp_path / "mine.toml").write_text("seed = 4\n")
    assert Coder(tmp_path / "mine.toml").recipe.seed == 4
    with pytest.raises(RecipeError, match="a coder takes the name of a recipe.* not int"):
        Coder(3)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="changes are strings"):
        Coder("plant", {"fit.epochs": 1})  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="fit.batch must be at least 1"):
        Coder(replace(Recipe(), fit=replace(Recipe().fit, batch=0)))


@pytest.mark.parametrize("build", [lambda text: Coder([text]), lambda text: Coder("prior", [text])])
@pytest.mark.usefixtures("unchecked")
def test_a_text_in_the_place_of_a_recipe_is_not_quoted(build: Callable[[str], Coder]) -> None:
    with pytest.raises(RecipeError) as error:
        build("Mrs Smith has diabetes")
    assert "Smith" not in str(error.value)


@pytest.mark.usefixtures("unchecked")
def test_a_text_in_the_place_of_a_code_book_is_not_quoted() -> None:
    with pytest.raises(InputError) as error:
        Coder("prior").fit(["a"], [["I10"]], codebook="Mrs Smith has diabetes")  # type: ignore[arg-type]
    assert "Smith" not in str(error.value)
