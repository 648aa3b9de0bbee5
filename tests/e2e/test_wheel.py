"""A wheel holds all that the package needs, and works where the repository is not."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    kept = {name for name in zipfile.ZipFile(wheel).namelist() if not name.partition("/")[0].endswith(".dist-info")}
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in (source / "plant").rglob("*") if path.is_file()}
    assert kept == {file for file in files if "__pycache__" not in file}


def test_the_wheel_works_outside_of_the_repository(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "notes.csv").write_text("id,text,codes\n" + "".join(f"{n},fever and cough,R05\n" for n in range(20)))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    script = "import plant; print(plant.__file__); from plant.cli.main import main; main()"
    command = [sys.executable, "-c", script, "prepare", "notes.csv", "--out", "corpus"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
    assert (tmp_path / "corpus" / "manifest.json").is_file()
