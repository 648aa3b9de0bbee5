"""The house plan holds: rooms import only what they may, and `plant --help` loads nothing heavy."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "numba", "polars", "scipy", "sklearn", "matplotlib", "simple_icd_10_cm")
PYTHON = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, env=PYTHON, capture_output=True, text=True, check=False, timeout=300)


def test_rooms_import_only_what_they_may() -> None:
    finished = run("from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-2000:]


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys, plant.cli.main as cli\n"
        "try:\n    cli.main(['--help'])\n"
        "except SystemExit as done:\n    assert not done.code\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    finished = run(program)
    assert finished.returncode == 0, finished.stderr
    assert "usage: plant" in finished.stdout
    assert finished.stderr.split() == []


def test_a_list_of_parts_loads_nothing_heavy() -> None:
    program = (
        "import sys, plant.cli.main as cli\n"
        "try:\n    cli.main(['parts'])\n"
        "except SystemExit as done:\n    assert not done.code\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    finished = run(program)
    assert finished.returncode == 0, finished.stderr
    assert "planted" in finished.stdout
    assert finished.stderr.split() == []
