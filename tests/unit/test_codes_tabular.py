"""The tabular list is what its package says, is parsed once, and does without a folder to keep it in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from plant.codes import tabular
from plant.codes.lists import is_known, tabular_ancestors, tabular_names, titles


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of the test's own, and nothing read from another."""
    monkeypatch.setenv("PLANT_CACHE", str(tmp_path / "cache"))
    tabular._tabular.cache_clear()
    yield tmp_path / "cache"
    tabular._tabular.cache_clear()


def test_items_are_those_of_the_package() -> None:
    import simple_icd_10_cm as package

    for code in ["B10", "B10.01", "I21.0", "I20-I25", "9", *package.get_all_codes()[::997]]:
        above = dict.fromkeys(name for name in package.get_ancestors(code) if name != code)
        assert tabular_ancestors(code) == tuple(above)
        names = (package.get_description(code), *package.get_inclusion_term(code), *package.get_includes(code))
        assert tabular_names(code) == names


def test_a_code_that_was_dropped_hangs_under_what_is_left_of_it() -> None:
    assert tabular_ancestors("I21.0999")[:2] == ("I21.09", "I21.0")
    assert tabular_ancestors("QQQ") == ()


def test_the_table_is_written_once_and_read_from_then_on(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tabular.item("I10") is not None
    assert len(list(fresh.iterdir())) == 1
    tabular._tabular.cache_clear()
    monkeypatch.setattr(tabular, "_written_down", lambda: pytest.fail("parsed again"))
    assert tabular.item("I10") is not None


@pytest.mark.parametrize("content", ["", "half a tab", "other\n"])
def test_a_damaged_table_is_written_anew(fresh: Path, content: str) -> None:
    tabular.item("I10")
    (path,) = fresh.iterdir()
    whole = path.read_text()
    path.write_text(content)
    tabular._tabular.cache_clear()
    assert tabular.item("I10") is not None
    assert path.read_text() == whole


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(fresh: Path) -> None:
    fresh.write_text("a file stands where the folder would")
    assert tabular.item("I10") is not None


def test_beginnings_of_codes_are_known_and_nothing_else() -> None:
    for system in ("icd9-diagnosis", "icd9-procedure", "icd10cm", "icd10pcs"):
        some = list(titles(system))[::501]
        assert all(is_known(code[:length], system) for code in some for length in range(2, len(code) + 1))
        assert not any(is_known(code + "~", system) or is_known(code[:1], system) for code in some)
