"""Compiled kernels find a place to be kept, also where nothing can be written."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from plant import kernels
from plant.kernels import VARIABLE, are_kept, find_room


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which nothing is writable, also for a user who may write everywhere."""
    (tmp_path / "package" / "text").mkdir(parents=True)
    inside = str(tmp_path / "package")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith((inside, "/nowhere")))
    monkeypatch.setattr(kernels, "user_cache", lambda environment: tmp_path / "package" / "cache")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "package"


def test_a_writable_package_keeps_its_kernels_itself(tmp_path: Path) -> None:
    environment: dict[str, str] = {"HOME": "/nowhere"}
    find_room(environment, package=tmp_path)
    assert environment == {"HOME": "/nowhere"}


def test_a_read_only_package_with_a_home_leaves_it_to_numba(
    tmp_path: Path, locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "user_cache", lambda environment: tmp_path)
    environment: dict[str, str] = {}
    find_room(environment, package=locked)
    assert not environment


def test_without_any_writable_place_a_private_temporary_folder_is_named(locked: Path) -> None:
    environment: dict[str, str] = {}
    find_room(environment, package=locked)
    folder = Path(environment[VARIABLE])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    again: dict[str, str] = {}
    find_room(again, package=locked)
    assert again == environment


def test_a_folder_that_others_may_write_is_not_trusted(locked: Path, tmp_path: Path) -> None:
    foreign = tmp_path / f"plant-kernels-{os.getuid()}"
    foreign.mkdir()
    foreign.chmod(0o777)
    environment: dict[str, str] = {}
    find_room(environment, package=locked)
    assert Path(environment[VARIABLE]) != foreign
    assert stat.S_IMODE(Path(environment[VARIABLE]).stat().st_mode) == 0o700


def test_a_link_in_place_of_the_folder_is_not_followed(locked: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / f"plant-kernels-{os.getuid()}").symlink_to(tmp_path / "target")
    environment: dict[str, str] = {}
    find_room(environment, package=locked)
    assert Path(environment[VARIABLE]).name != f"plant-kernels-{os.getuid()}"


def test_a_folder_that_the_user_names_stays(locked: Path) -> None:
    environment = {VARIABLE: "/chosen"}
    find_room(environment, package=locked)
    assert environment == {VARIABLE: "/chosen"}


def test_kernels_are_kept_once_an_index_lies_beside_them(tmp_path: Path) -> None:
    environment = {VARIABLE: str(tmp_path / "cache")}
    assert not are_kept(environment, package=tmp_path)
    (tmp_path / "text" / "__pycache__").mkdir(parents=True)
    (tmp_path / "text" / "__pycache__" / "surfaces._scan.nbi").touch()
    assert are_kept(environment, package=tmp_path)


NO_PLACE = """
import os
import sys
from unittest import mock

access = os.access
with mock.patch("os.access", lambda path, mode: False if {blind} else access(path, mode)):
    import plant
from numba.core import caching

only = [caching.UserProvidedCacheLocator]  # as if neither the package nor the home could be written
with mock.patch.object(caching.CacheImpl, "_locator_classes", only):
    from plant.text.surfaces import scan_words
from plant.text.tokenizer import code_points

print(scan_words(code_points("fever and cough"), keep_numbers=False)[0].tolist())
"""


@pytest.mark.parametrize("blind", [True, False])
def test_kernels_compile_where_numba_finds_no_place_for_them(blind: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop(VARIABLE, None)
    script = [sys.executable, "-c", NO_PLACE.format(blind=blind)]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    if blind:
        assert done.stdout == "[0, 6, 10]\n", done.stderr
        assert list(tmp_path.rglob("*.nbi"))
    else:  # what the fallback is for: numba gives up
        assert "no locator available" in done.stderr
