"""What users call: it can be imported from `plant`, loads nothing that is not asked for, and its examples are true."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import plant
import plant.coder
import plant.codes.files
import plant.estimator
import plant.recipe.reading
import plant.types
from plant import CodeBook, Coder, Note

TEXTS = ["fever and cough", "broken wrist", "cough, no fever", "wrist pain after a fall"] * 5
CODES = [["R05"], ["S62"], ["R05"], ["S62"]] * 5
MODULES = (plant.coder, plant.estimator, plant.codes.files, plant.recipe.reading, plant.types)


@pytest.fixture(scope="module")
def coder() -> Coder:
    return Coder("tfidf", "prepare.min_count=1").fit(TEXTS, CODES)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_in_docstrings_are_true(module: object, coder: Coder, tmp_path: Path) -> None:
    given = {"coder": coder, "texts": TEXTS, "codes": CODES, "CodeBook": CodeBook, "Coder": Coder, "Note": Note}
    ended = doctest.testmod(module, extraglobs={**given, "folder": tmp_path})  # type: ignore[arg-type]
    assert ended.attempted
    assert not ended.failed


def test_what_users_call_has_an_example() -> None:
    finder = doctest.DocTestFinder()
    shown = {test.name for module in MODULES for test in finder.find(module) if test.examples}
    called = [name for name in vars(Coder) if not name.startswith("_") and callable(getattr(Coder, name))]
    assert {f"plant.coder.Coder.{name}" for name in called if name != "quantized"} <= shown


def test_every_public_name_is_there_and_is_documented() -> None:
    for name in plant.__all__:
        if name != "__version__":
            assert getattr(plant, name).__doc__, name
    with pytest.raises(AttributeError, match="nonsense"):
        plant.nonsense  # noqa: B018


def test_importing_plant_loads_nothing_heavy() -> None:
    program = "import sys, plant; print([n for n in ('torch', 'numpy', 'numba') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(plant.__file__).parent / "py.typed").is_file()
